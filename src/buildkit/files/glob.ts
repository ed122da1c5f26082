/** One step of a pattern; which are possible is known after each character, so no text takes long. */
type Token =
  /** One character. */
  | { readonly kind: 'one'; readonly accepts: (char: string) => boolean }
  /** Any number of them. */
  | { readonly kind: 'many'; readonly accepts: (char: string) => boolean }
  /** Whole directories: what follows begins the text, or comes after a `/`. */
  | { readonly kind: 'directories' };

const any = () => true;
const notSlash = (char: string) => char !== '/';

/** Tests paths; calls `steps` with the number of steps that each path took, which may throw. */
export type Glob = (path: string, steps?: (count: number) => void) => boolean;

/**
 * Makes a test of paths from a pattern in which `*` and `?` stop at `/`, `**` does not, `[...]` is a class
 * and `\` takes the next character as it is. Time is linear in the text, whatever the pattern: it may be
 * a stranger's. Throws an `Error` for brackets that do not fit.
 */
export function compileGlob(pattern: string): Glob {
  if (!/[*?[\]\\]/.test(pattern)) return path => path === pattern;
  const tokens = parse(pattern);
  const start = /^[^*?[\]\\]*/.exec(pattern)?.[0] ?? '';
  const end = plainEnd(pattern);
  const inside = longestText(pattern);
  const run = automaton(tokens);
  // The plain text in a pattern decides for nearly every path of a tree.
  return (path, steps) =>
    path.startsWith(start) && path.endsWith(end) && path.includes(inside) && run(path, steps);
}

/** What a pattern ends with after its last special character. A regular expression takes time by the square. */
function plainEnd(pattern: string): string {
  let start = pattern.length;
  while (start > 0 && !'*?[]\\/'.includes(pattern.charAt(start - 1))) start -= 1;
  return pattern.slice(start);
}

/** The longest text within a name that whatever matches the pattern has in it. */
function longestText(pattern: string): string {
  const texts = pattern.replace(/\[(?:\\.|[^\]\\])*\]/gs, '*').split(/[*?[\]\\/]/);
  return texts.reduce((longest, text) => (text.length > longest.length ? text : longest), '');
}

/**
 * Runs through a path with all states at once that the pattern may be in. A state is the number of tokens that
 * are behind, or, within directories that have not ended, that of their token behind all others.
 */
function automaton(tokens: readonly Token[]): Glob {
  const within = tokens.length + 1;
  const marks = new Uint32Array(2 * within);
  let mark = 0;
  const enter = (into: number[], first: number) => {
    // To be between two steps is to be able to be after all those that may take nothing.
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

// Two stars with what may follow them, a class, an escaped character, or any one.
const piece = /(\*\*\/?)|\[(\^?)((?:\\.|[^\]\\])+)\]|\\(.)|(.)/gsu;

function parse(pattern: string): Token[] {
  // A quirk of BuildKit: `**name` is any text that ends so, as long as nothing else in it is special.
  const isSuffix = /^\*\*[^/]/.test(pattern) && !/[*?[\]\\]/.test(pattern.slice(2));
  const tokens: Token[] = [];
  for (const match of pattern.matchAll(piece)) {
    const [whole, stars, not, members, escaped, plain] = match;
    const isLast = match.index + whole.length === pattern.length;
    if (stars !== undefined) {
      tokens.push(isLast || isSuffix ? { kind: 'many', accepts: any } : { kind: 'directories' });
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
  const ranges = [...members.matchAll(/\\?(.)(?:-\\?([^\]]))?/gsu)].map(
    ([, low = '', high = low]) => [low.codePointAt(0) ?? 0, high.codePointAt(0) ?? 0] as const,
  );
  return char => {
    const point = char.codePointAt(0) ?? 0;
    return ranges.some(([low, high]) => low <= point && point <= high);
  };
}
