/**
 * Notes a use by its day (`yyyy-mm-dd`, UTC), so at most once a day.
 *
 * @param noted the day that is noted already
 * @param at ms since the epoch
 */
export async function noteUse(
  noted: string | null,
  at: number,
  note: (day: string) => Promise<void>,
): Promise<void> {
  const day = new Date(at).toISOString().slice(0, 10);
  if (day !== noted) await note(day);
}
