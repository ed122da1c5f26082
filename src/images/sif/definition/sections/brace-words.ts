/** Words that one word may become. */
const most = 1000;
/** The length of a path in Linux. */
const longest = 4096;

/**
 * Returns the words that a shell makes of the braces of a word, before it expands patterns: `a{b,c}` is `ab` and `ac`, and
 * `{1..3}` is `1`, `2` and `3`. Other braces stay. Returns undefined for too many or too long words, and for ranges with
 * a step or leading zeros.
 * Source: apptainer 1.4.5, compared with its results.
 */
export function braceWords(word: string): readonly string[] | undefined {
  if (!word.includes('{')) return [word];
  if (word.length > longest) return undefined;
  const ends = endsOf(word);
  for (const [start, end] of [...ends].sort(([one], [other]) => one - other)) {
    const parts = partsOf(word, start, end, ends);
    if (parts === 'none') continue;
    const tails = braceWords(word.slice(end + 1));
    const middles = parts === 'unknown' ? [undefined] : parts.map(braceWords);
    if (tails === undefined || middles.includes(undefined)) return undefined;
    const inner = middles.flatMap(words => words ?? []);
    if (inner.length * tails.length > most) return undefined;
    const head = word.slice(0, start);
    return inner.flatMap(middle => tails.map(tail => head + middle + tail));
  }
  return [word];
}

/** Returns the position of the closing brace of each opening one. */
function endsOf(word: string): ReadonlyMap<number, number> {
  const ends = new Map<number, number>();
  const open: number[] = [];
  for (let at = 0; at < word.length; at += 1) {
    if (word[at] === '{') open.push(at);
    const start = word[at] === '}' ? open.pop() : undefined;
    if (start !== undefined) ends.set(start, at);
  }
  return ends;
}

/** Returns the alternatives between two braces; `none` for braces that stay. */
function partsOf(
  word: string,
  start: number,
  end: number,
  ends: ReadonlyMap<number, number>,
): readonly string[] | 'none' | 'unknown' {
  const parts: string[] = [];
  let from = start + 1;
  for (let at = from; at < end; at += 1) {
    at = ends.get(at) ?? at;
    if (word[at] !== ',') continue;
    parts.push(word.slice(from, at));
    from = at + 1;
  }
  if (parts.length > 0) return [...parts, word.slice(from, end)];
  return rangeOf(word.slice(start + 1, end));
}

function rangeOf(text: string): readonly string[] | 'none' | 'unknown' {
  const [, first, last] = /^(-?\d{1,9})\.\.(-?\d{1,9})$/.exec(text) ?? [];
  if (first !== undefined && last !== undefined) {
    const bounds = [first, last].map(Number);
    if (bounds.map(String).join() !== `${first},${last}`) return 'unknown';
    return between(bounds, String);
  }
  const [, one, other] =
    /^([A-Z])\.\.([A-Z])$|^([a-z])\.\.([a-z])$/.exec(text)?.filter(Boolean) ?? [];
  if (one !== undefined && other !== undefined) {
    return between(
      [one, other].map(letter => letter.charCodeAt(0)),
      code => String.fromCharCode(code),
    );
  }
  return /^(?:-?\d+|[A-Za-z])\.\.(?:-?\d+|[A-Za-z])(?:\.\.-?\d+)?$/.test(text) ? 'unknown' : 'none';
}

function between(
  [first = 0, last = 0]: readonly number[],
  show: (value: number) => string,
): readonly string[] | 'unknown' {
  const count = Math.abs(last - first) + 1;
  if (count > most) return 'unknown';
  const step = first < last ? 1 : -1;
  return Array.from({ length: count }, (_, at) => show(first + step * at));
}
