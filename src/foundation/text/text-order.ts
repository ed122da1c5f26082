/** Compares texts by their UTF-16 code units: the same order on every machine, and for ASCII that of bytes. */
export function compareTexts(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
