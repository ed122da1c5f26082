/** A part of a regular expression, as far as its running time depends on it. */
export type Piece =
  /** One character: a class, an escape or the character itself. */
  | { readonly kind: 'character'; readonly source: string }
  | { readonly kind: 'sequence'; readonly parts: readonly Piece[] }
  | { readonly kind: 'choice'; readonly options: readonly Piece[] }
  | { readonly kind: 'repeat'; readonly part: Piece; readonly least: number; readonly most: number }
  | { readonly kind: 'start' }
  | { readonly kind: 'end' }
  /** Text that is read ahead, and not taken. */
  | { readonly kind: 'ahead'; readonly part: Piece }
  | { readonly kind: 'behind'; readonly part: Piece };

const empty: Piece = { kind: 'sequence', parts: [] };
const escaped =
  /\\(?:[pP]\{[^}]*\}|u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|.)/sy;
const quantified = /(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})\??/y;
const opening = /\((?:\?(?:([:=!])|<([=!])|<[^>]+>))?/y;

/** Parses the source of a valid pattern. A reference to a group counts as no text. */
export function parsePattern(source: string): Piece {
  let at = 0;

  const take = (pattern: RegExp): RegExpExecArray | undefined => {
    pattern.lastIndex = at;
    const match = pattern.exec(source);
    if (match) at = pattern.lastIndex;
    return match ?? undefined;
  };

  const readChoice = (): Piece => {
    const options = [readSequence()];
    while (source[at] === '|') {
      at += 1;
      options.push(readSequence());
    }
    return options.length === 1 ? (options[0] ?? empty) : { kind: 'choice', options };
  };

  const readSequence = (): Piece => {
    const parts: Piece[] = [];
    while (at < source.length && source[at] !== '|' && source[at] !== ')') {
      parts.push(readRepeat());
    }
    return { kind: 'sequence', parts };
  };

  const readRepeat = (): Piece => {
    const part = readPart();
    const match = take(quantified);
    if (!match) return part;
    const [, sign, count = '', comma, highest] = match;
    if (sign === undefined) {
      const least = Number(count);
      const most = comma === undefined ? least : highest ? Number(highest) : Infinity;
      return { kind: 'repeat', part, least, most };
    }
    const most = sign === '?' ? 1 : Infinity;
    return { kind: 'repeat', part, least: sign === '+' ? 1 : 0, most };
  };

  const readPart = (): Piece => {
    const first = source[at] ?? '';
    if (first === '(') return readGroup();
    if (first === '[') return readClass();
    if (first === '\\') return readEscape();
    at += 1;
    if (first === '^') return { kind: 'start' };
    if (first === '$') return { kind: 'end' };
    return { kind: 'character', source: first };
  };

  const readGroup = (): Piece => {
    const [, kind, behind] = take(opening) ?? [];
    const part = readChoice();
    at += 1;
    if (behind !== undefined) return { kind: 'behind', part };
    return kind === '=' || kind === '!' ? { kind: 'ahead', part } : part;
  };

  const readClass = (): Piece => {
    const start = at;
    at += 1;
    while (source[at] !== ']') at += source[at] === '\\' ? 2 : 1;
    at += 1;
    return { kind: 'character', source: source.slice(start, at) };
  };

  const readEscape = (): Piece => {
    if (take(/\\(?:[bB]|[1-9]\d*|k<[^>]+>)/y)) return empty;
    const [text = ''] = take(escaped) ?? [];
    return { kind: 'character', source: text };
  };

  const whole = readChoice();
  if (at < source.length) throw new Error(`/${source}/ cannot be parsed at ${at}`);
  return whole;
}
