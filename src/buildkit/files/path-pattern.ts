import { posix } from 'node:path';

/** A line of a .dockerignore, or a path that a COPY names. */
export interface PathPattern {
  /** The normalized pattern, without its `!`. */
  readonly text: string;
  /** True for `!pattern`: it selects again what earlier patterns excluded. */
  readonly isException: boolean;
  /** True if it has no wildcard, except `**` at its end (`a/b`, `a/**`). */
  readonly isPlain: boolean;
  readonly matches: Glob;
}

/**
 * Parses a line of a .dockerignore as BuildKit does (github.com/moby/patternmatcher): `*` and `?` stop at `/`, `**`
 * does not, `[...]` is a class, `\` escapes the next character, and `!` marks an exception. Throws an `Error` for an
 * invalid pattern.
 */
export function parsePattern(line: string): PathPattern {
  return line.startsWith('!') ? patternOf(line.slice(1), true) : patternOf(line, false);
}

/** Parses a path that a COPY names. The syntax is the same, but `!` has no special meaning. */
export function parsePath(path: string): PathPattern {
  return patternOf(path, false);
}

function patternOf(written: string, isException: boolean): PathPattern {
  if (written === '') throw new Error("'!' alone is not a pattern");
  const text = withoutSlash(posix.normalize(written));
  return {
    text,
    isException,
    isPlain: !/[*[\]?^\\]/.test(text.replace(/\/?\*\*$/, '')),
    matches: compileGlob(text),
  };
}

/** True if a part of a path has a wildcard that is not escaped. */
export function hasWildcard(part: string): boolean {
  return /[*?[]/.test(part.replace(/\\./gs, ''));
}

function withoutSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

/** One token of a pattern. The matcher tracks all possible positions at once, so that no text takes long. */
type Token =
  /** One character. */
  | { readonly kind: 'one'; readonly accepts: (char: string) => boolean }
  /** Any number of characters. */
  | { readonly kind: 'many'; readonly accepts: (char: string) => boolean }
  /** Whole directories: the next token starts at the beginning of the text or after a `/`. */
  | { readonly kind: 'directories' };

const anyCharacter = () => true;
const notSlash = (char: string) => char !== '/';

/** Tests a path. Calls `steps` with the number of steps that the path took; `steps` may throw. */
type Glob = (path: string, steps?: (count: number) => void) => boolean;

/**
 * Compiles a pattern to a test of paths. `*` and `?` stop at `/`, `**` does not, `[...]` is a class, and `\` escapes
 * the next character. Time is linear in the text for every pattern, because the pattern may be untrusted. Throws an
 * `Error` for unbalanced brackets.
 */
export function compileGlob(pattern: string): Glob {
  if (!/[*?[\]\\]/.test(pattern)) return path => path === pattern;
  const tokens = parseGlob(pattern);
  const start = /^[^*?[\]\\]*/.exec(pattern)?.[0] ?? '';
  const end = plainEnd(pattern);
  const inside = longestText(pattern);
  const run = automaton(tokens);
  // The plain text in a pattern decides for nearly every path of a tree.
  return (path, steps) =>
    path.startsWith(start) && path.endsWith(end) && path.includes(inside) && run(path, steps);
}

/** Returns the text after the last special character. A regular expression would take quadratic time. */
function plainEnd(pattern: string): string {
  let start = pattern.length;
  while (start > 0 && !'*?[]\\/'.includes(pattern.charAt(start - 1))) start -= 1;
  return pattern.slice(start);
}

/** Returns the longest literal text that every match of the pattern contains. */
function longestText(pattern: string): string {
  const texts = [...pattern.matchAll(globPiece)].map(([whole]) =>
    whole.length === 1 && !'?]/'.includes(whole) ? whole : '*',
  );
  return texts
    .join('')
    .split('*')
    .reduce((longest, text) => (text.length > longest.length ? text : longest), '');
}

/**
 * Processes a path while it tracks all possible states of the pattern. A state is the number of tokens already matched.
 * A state inside an unfinished directory is the position of its `directories` token plus `within`.
 */
function automaton(tokens: readonly Token[]): Glob {
  const within = tokens.length + 1;
  const marks = new Uint32Array(2 * within);
  let mark = 0;
  const enter = (into: number[], first: number) => {
    // Between two tokens, the tokens that match the empty text may be skipped.
    for (let state = first; marks[state] !== mark; state += 1) {
      marks[state] = mark;
      into.push(state);
      if ((tokens[state]?.kind ?? 'one') === 'one') return;
    }
  };
  const stay = (into: number[], state: number) => {
    if (marks[state] === mark) return;
    marks[state] = mark;
    into.push(state);
  };
  return (path, steps) => {
    let states: number[] = [];
    mark += 1;
    enter(states, 0);
    let count = 0;
    for (const char of path) {
      const next: number[] = [];
      mark += 1;
      count += states.length;
      for (const state of states) {
        const position = state < within ? state : state - within;
        const token = tokens[position];
        if (token?.kind === 'directories') {
          if (char === '/') enter(next, position);
          else stay(next, position + within);
        } else if (token?.accepts(char)) {
          enter(next, token.kind === 'one' ? position + 1 : position);
        }
      }
      states = next;
      if (states.length === 0) break;
    }
    steps?.(count);
    return states.includes(tokens.length);
  };
}

// Two stars with an optional `/`, a class, an escaped character, or any one character.
const globPiece = /(\*\*\/?)|\[(\^?)((?:\\.|[^\]\\])+)\]|\\(.)|(.)/gsu;

function parseGlob(pattern: string): Token[] {
  // A quirk of BuildKit: `**name` matches any text with this ending, if the rest has no special character.
  const isSuffix = /^\*\*[^/]/.test(pattern) && !/[*?[\]\\]/.test(pattern.slice(2));
  const tokens: Token[] = [];
  for (const match of pattern.matchAll(globPiece)) {
    const [whole, stars, not, members, escaped, plain] = match;
    const isLast = match.index + whole.length === pattern.length;
    if (stars !== undefined) {
      tokens.push(
        isLast || isSuffix ? { kind: 'many', accepts: anyCharacter } : { kind: 'directories' },
      );
    } else if (members !== undefined) {
      const isMember = classOf(members);
      tokens.push({ kind: 'one', accepts: char => isMember(char) !== (not === '^') });
    } else if (plain === '*') tokens.push({ kind: 'many', accepts: notSlash });
    else if (plain === '?') tokens.push({ kind: 'one', accepts: notSlash });
    else if (plain === '[' || plain === '\\') throw new Error(`'${pattern}' is not a pattern`);
    else tokens.push({ kind: 'one', accepts: char => char === (escaped ?? plain) });
  }
  return tokens;
}

function classOf(members: string): (char: string) => boolean {
  const ranges = mergedRanges(
    [...members.matchAll(/\\?(.)(?:-\\?([^\]]))?/gsu)].map(([, low = '', high = low]) => ({
      low: low.codePointAt(0) ?? 0,
      high: high.codePointAt(0) ?? 0,
    })),
  );
  // A class may have thousands of characters, and is one step of the budget.
  return char => {
    const point = char.codePointAt(0) ?? 0;
    let first = 0;
    for (let end = ranges.length; first < end; ) {
      const middle = (first + end) >> 1;
      if ((ranges[middle]?.high ?? 0) < point) first = middle + 1;
      else end = middle;
    }
    return (ranges[first]?.low ?? Number.POSITIVE_INFINITY) <= point;
  };
}

interface Range {
  readonly low: number;
  readonly high: number;
}

/** Returns ranges in their order, none of which overlap. */
function mergedRanges(ranges: readonly Range[]): readonly Range[] {
  const apart: { low: number; high: number }[] = [];
  for (const { low, high } of ranges.toSorted((one, other) => one.low - other.low)) {
    const last = apart.at(-1);
    if (low > high) continue;
    if (last && low <= last.high) last.high = Math.max(last.high, high);
    else apart.push({ low, high });
  }
  return apart;
}
