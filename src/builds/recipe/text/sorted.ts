import { compareTexts } from '../../../foundation/text/text-order.ts';

/** Returns the texts in the order of their UTF-16 code units, each once; for ASCII that is `LC_ALL=C sort -u`. */
export function sortedOnce(texts: Iterable<string>): readonly string[] {
  return [...new Set(texts)].sort(compareTexts);
}
