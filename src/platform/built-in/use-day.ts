/**
 * Notes a use, as exact as the day (`yyyy-mm-dd`, UTC) and so at most once in it. That it cannot be noted is
 * no reason to refuse it.
 *
 * @param noted what is noted already
 * @param at ms since the epoch
 */
export function noteUse(noted: string | null, at: number, note: (day: string) => void): void {
  const day = new Date(at).toISOString().slice(0, 10);
  if (day === noted) return;
  try {
    note(day);
  } catch {
    // The disk is full or the database busy: the next use is noted.
  }
}
