/** A day in ms. Days of UTC all have this length. */
export const dayMs = 24 * 3_600_000;

let last = { day: Number.NaN, text: '' };

/**
 * Returns the day of a moment, `yyyy-mm-dd` (UTC).
 *
 * @param at ms since the epoch
 */
export function dayOf(at: number): string {
  const day = Math.floor(at / dayMs);
  // Each pull asks for the day of now.
  if (day !== last.day) last = { day, text: new Date(at).toISOString().slice(0, 10) };
  return last.text;
}
