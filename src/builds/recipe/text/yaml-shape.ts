import { Lexer } from 'yaml';

/** Limits for the structure of a YAML text: the parser takes 10 µs for each mark, and a call for each level. */
const maxMarks = 2500;
// A text in quotes takes as long as a mark, also where none may be.
const maxQuotes = 4000;
const maxDepth = 20;
export const tooDeep = 'has lists or mappings nested too deep';
const mark = /[\n,[\]{}&*!]|[-:?](?=\s)|(['"])/g;

/**
 * Returns why a YAML text is too large to parse, as the end of a sentence; undefined if it is not. Each list entry and
 * each mapping has one or two marks.
 */
export function tooMuchIn(text: string): string | undefined {
  const first = text.slice(0, endOfMarks(text));
  if (isTooDeep(flowDepths(first)) || isTooDeep(blockDepths(first))) return tooDeep;
  if (first.length === text.length) return undefined;
  return `has more than ${maxMarks} line ends, list marks, colons and brackets, or ${maxQuotes} quotes: list at most 1200 packages`;
}

/** Returns the position of the first mark beyond the limit. */
function endOfMarks(text: string): number {
  let marks = 0;
  let quotes = 0;
  for (const { index, 1: quote } of text.matchAll(mark)) {
    if (quote === undefined) marks += 1;
    else quotes += 1;
    if (marks > maxMarks || quotes > maxQuotes) return index;
  }
  return text.length;
}

function isTooDeep(depths: Iterable<number>): boolean {
  for (const depth of depths) if (depth > maxDepth) return true;
  return false;
}

/** Yields the depth of each list and mapping in brackets. Only the lexer knows which brackets are part of a text. */
function* flowDepths(text: string): Generator<number> {
  let depth = 0;
  for (const token of new Lexer().lex(text)) {
    if (token === '[' || token === '{') yield ++depth;
    else if (token === ']' || token === '}') depth = Math.max(0, depth - 1);
  }
}

const blockMark = /[-:?](?:[ \t]+|$)/y;

/** Yields the depth of each list and mapping without brackets: by indentation, and on one line as in `- - - a`. */
function* blockDepths(text: string): Generator<number> {
  const columns: number[] = [];
  for (const [line] of text.matchAll(/[^\n]+/g)) {
    let column = line.search(/[^ ]/);
    if (column < 0 || line[column] === '#') continue;
    while ((columns.at(-1) ?? -1) >= column) columns.pop();
    for (;;) {
      columns.push(column);
      yield columns.length;
      blockMark.lastIndex = column;
      const [found] = blockMark.exec(line) ?? [];
      if (found === undefined) break;
      column += found.length;
    }
  }
}
