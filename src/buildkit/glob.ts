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

/**
 * Makes a test of paths from a pattern in which `*` and `?` stop at `/`, `**` does not, `[...]` is a class
 * and `\` takes the next character as it is. Time is linear in the text, whatever the pattern: it may be
 * a stranger's. Throws an `Error` for brackets that do not fit.
 */
export function compileGlob(pattern: string): (path: string) => boolean {
  if (!/[*?[\]\\]/.test(pattern)) return path => path === pattern;
  const tokens = parse(pattern);
  return path => runs(tokens, path);
}

function runs(tokens: readonly Token[], path: string): boolean {
  let states = new Set<number>();
  // To be between two steps is to be able to be after all those that may take nothing.
  const enter = (into: Set<number>, first: number) => {
    for (let state = first; !into.has(state); state += 1) {
      into.add(state);
      if ((tokens[state]?.kind ?? 'one') === 'one') return;
    }
  };
  // Within directories one is not at their end: a negative number stands for that.
  const stay = (state: number) => -state - 1;
  enter(states, 0);
  for (const char of path) {
    const next = new Set<number>();
    for (const state of states) {
      const position = state < 0 ? stay(state) : state;
      const token = tokens[position];
      if (token?.kind === 'directories') {
        if (char === '/') enter(next, position);
        else next.add(stay(position));
      } else if (token?.accepts(char)) {
        enter(next, token.kind === 'one' ? position + 1 : position);
      }
    }
    if (next.size === 0) return false;
    states = next;
  }
  return states.has(tokens.length);
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
