import { dayOf } from '../../foundation/telemetry/counted.ts';

/**
 * Records the day of a use (`yyyy-mm-dd`, UTC), and so writes at most once a day.
 *
 * @param noted the recorded day
 * @param at ms since the epoch
 */
export async function noteUse(
  noted: string | null,
  at: number,
  note: (day: string) => Promise<void>,
): Promise<void> {
  const day = dayOf(at);
  if (day !== noted) await note(day);
}
