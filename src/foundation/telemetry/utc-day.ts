/** A day in ms. Days of UTC all have this length. */
export const dayMs = 24 * 3_600_000;

/**
 * Returns the day of a moment, `yyyy-mm-dd` (UTC).
 *
 * @param at ms since the epoch
 */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
