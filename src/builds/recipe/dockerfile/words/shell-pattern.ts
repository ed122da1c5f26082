/** A character, or a wildcard: `?` for any one character, `*` for any number of characters. */
interface Piece {
  readonly wildcard?: '?' | '*';
  readonly character: string;
}

/**
 * Returns the value without the match of the pattern at its start or end: the shortest match, or the longest where the
 * operator is doubled. Throws {@link WordError}. Source: POSIX.1-2017, Shell 2.6.2 and 2.14, without bracket
 * expressions, as in the Dockerfile reference.
 */
export function removePattern(
  value: string,
  operand: string,
  side: 'start' | 'end',
  budget: Budget,
): string {
  const isLongest = operand.startsWith(side === 'start' ? '#' : '%');
  const pattern = parsePattern(isLongest ? operand.slice(1) : operand);
  const characters = [...value];
  if (side === 'end') {
    characters.reverse();
    pattern.reverse();
  }
  const length = matchAt(characters, 0, pattern, isLongest, budget);
  if (length === undefined) return value;
  const rest = characters.slice(length);
  return (side === 'end' ? rest.reverse() : rest).join('');
}

/**
 * Returns the value with the first or every longest match of the pattern replaced. An empty match directly after
 * another match does not count. Throws {@link WordError}.
 */
export function replacePattern(
  value: string,
  operand: string,
  replacement: string,
  isEvery: boolean,
  budget: Budget,
): string {
  if (isEvery && replacement.includes('$')) {
    throw new WordError("the replacement of a substitution has a '$' in it");
  }
  const pattern = parsePattern(operand);
  const characters = [...value];
  let result = '';
  let copied = 0;
  let end = -1;
  for (let at = 0; at <= characters.length; ) {
    const length = matchAt(characters, at, pattern, true, budget);
    if (length === undefined || (length === 0 && at === end)) {
      at += 1;
      continue;
    }
    budget.spend(replacement.length);
    result += characters.slice(copied, at).join('') + replacement;
    end = at + length;
    copied = end;
    at = Math.max(end, length === 0 ? at + 1 : end);
    if (!isEvery) break;
  }
  return result + characters.slice(copied).join('');
}

function parsePattern(text: string): Piece[] {
  const pieces: Piece[] = [];
  const characters = [...text];
  for (let position = 0; position < characters.length; position += 1) {
    const character = characters[position] as string;
    if (character === '*' || character === '?') pieces.push({ wildcard: character, character });
    else if (character !== '\\') pieces.push({ character });
    else {
      position += 1;
      const escaped = characters[position];
      if (escaped === undefined || !'}/*?\\'.includes(escaped)) {
        throw new WordError(`a pattern has an escape that is not known: \\${escaped ?? ''}`);
      }
      pieces.push({ character: escaped });
    }
  }
  return pieces;
}

/** Returns the length of the shortest or longest match that starts here; undefined if there is none. */
function matchAt(
  characters: readonly string[],
  start: number,
  pattern: readonly Piece[],
  isLongest: boolean,
  budget: Budget,
): number | undefined {
  // Possible numbers of matched pieces so far: a star may match no character.
  let states = passStars(new Set([0]), pattern);
  let found: number | undefined;
  for (let length = 0; states.size > 0; length += 1) {
    if (states.has(pattern.length)) {
      found = length;
      if (!isLongest) return found;
    }
    budget.spend(states.size);
    const character = characters[start + length];
    if (character === undefined) break;
    const following = new Set<number>();
    for (const state of states) {
      const piece = pattern[state];
      if (piece === undefined) continue;
      const isTaken = piece.wildcard ? character !== '\n' : piece.character === character;
      if (isTaken) following.add(piece.wildcard === '*' ? state : state + 1);
    }
    states = passStars(following, pattern);
  }
  return found;
}

function passStars(states: ReadonlySet<number>, pattern: readonly Piece[]): Set<number> {
  const all = new Set(states);
  for (const state of all) if (pattern[state]?.wildcard === '*') all.add(state + 1);
  return all;
}

/**
 * Limits the cost of words and variables in one Dockerfile, in characters read and inserted. Variables made of each
 * other double with every line, and patterns take quadratic time. Spending the whole budget takes about 20 ms.
 */
export class Budget {
  #left = 200_000;

  /** Throws {@link LimitError} when the budget is spent. */
  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0)
      throw new LimitError('variables are too long, or there are too many of them');
  }
}

/** A text cannot be parsed. The message is the reason, and the end of a sentence. */
export class WordError extends Error {}

/** A builder might accept the text, but parsing it would cost too much here. */
export class LimitError extends WordError {}
