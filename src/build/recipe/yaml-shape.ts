/** How much structure a YAML text may have: the parser takes 10 µs for each mark, and a call for each level. */
const maxMarks = 2500;
const maxDepth = 20;
const mark = /[\n,[\]{}&*!]|[-:?](?=\s)/g;

/**
 * What is too much in a YAML text, as the end of a sentence, found before it is parsed; undefined when nothing is.
 * Each list entry and each mapping has one or two marks.
 */
export function tooMuchIn(text: string): string | undefined {
  let count = 0;
  let depth = 0;
  let onLine = 0;
  for (const [found] of text.matchAll(mark)) {
    count += 1;
    onLine = found === '\n' ? 0 : onLine + Number(/[-:?]/.test(found));
    if (found === '[' || found === '{') depth += 1;
    else if (found === ']' || found === '}') depth = Math.max(0, depth - 1);
    if (count > maxMarks) {
      return `has more than ${maxMarks} line ends, list marks, colons and brackets: list at most 1200 packages`;
    }
    // Lists within lists can be on one line without a bracket: `- - - a`.
    if (depth > maxDepth || (onLine > maxDepth && depth === 0)) {
      return 'has lists or mappings nested too deep';
    }
  }
  return undefined;
}
