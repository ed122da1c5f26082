/** A line of a YAML file as programs write it: one member of a mapping, or one entry of a list. */
export interface LockLine {
  /** Number of the line, from 1. */
  readonly line: number;
  /** Names of the mappings around it; `-` for the entry of a list. */
  readonly path: readonly string[];
  /** Undefined for an entry that is a text. */
  readonly key: string | undefined;
  /** The text after the key, as it is written; empty for a list or mapping below it. */
  readonly value: string;
  /** True for the first line of an entry of a list. */
  readonly begins: boolean;
}

const pair =
  /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#[\]{}&*!|>%@`,:-][^:#]*?|-[^\s:#]+):(?: +(.*))?$/s;

const maxDepth = 30;

/**
 * Yields the lines of a YAML file in block style; each is valid until the next. Takes time in proportion to the length of
 * the text: no parser of all YAML does. Lines of other forms, such as those of a text of several lines, come as entries
 * without a key; lines that are nested deeper than 30 levels do not come.
 */
export function* lockLines(text: string): Generator<LockLine> {
  const path: string[] = [];
  const columns: number[] = [];
  const found = { line: 0, path, key: undefined as string | undefined, value: '', begins: false };
  for (let start = 0; start <= text.length; ) {
    const mark = text.indexOf('\n', start);
    const end = mark < 0 ? text.length : mark;
    const raw = text.slice(start, end).trimEnd();
    start = end + 1;
    found.line += 1;
    let column = firstColumn(raw, 0);
    if (column === raw.length || raw[column] === '#' || raw === '---') continue;
    found.begins = false;
    for (;;) {
      const isDash = raw[column] === '-' && (raw[column + 1] === ' ' || raw.length === column + 1);
      // A list may begin in the column of its key.
      for (let last = columns.length - 1; last >= 0; last -= 1) {
        const around = columns[last] as number;
        if (around < column || (around === column && isDash && path[last] !== '-')) break;
        path.pop();
        columns.pop();
      }
      if (!isDash || path.length > maxDepth) break;
      path.push('-');
      columns.push(column);
      column = firstColumn(raw, column + 1);
      found.begins = true;
    }
    if (path.length > maxDepth) continue;
    const rest = raw.slice(column);
    const [, name, value = ''] = pair.exec(rest) ?? [];
    found.key = name === undefined ? undefined : plainText(name);
    found.value = name === undefined ? rest : value;
    yield found;
    if (found.key === undefined) continue;
    path.push(found.key);
    columns.push(column);
  }
}

/** Returns the column of the first character that is not a blank. */
function firstColumn(raw: string, from: number): number {
  let column = from;
  while (raw[column] === ' ') column += 1;
  return column;
}

/** Returns the text that a value on one line stands for. */
export function plainText(value: string): string {
  const first = value[0];
  if (first !== "'" && first !== '"') return withoutComment(value);
  const [, single] = /^'((?:[^']|'')*)'(?: +#.*)?$/s.exec(value) ?? [];
  if (single !== undefined) return single.replaceAll("''", "'");
  const [, double] = /^("(?:[^"\\]|\\.)*")(?: +#.*)?$/s.exec(value) ?? [];
  if (double === undefined) return value;
  try {
    return String(JSON.parse(double));
  } catch {
    return double.slice(1, -1);
  }
}

function withoutComment(value: string): string {
  let end = value.indexOf(' #');
  if (end < 0) return value;
  while (value[end - 1] === ' ') end -= 1;
  return value.slice(0, end);
}

/** Returns whether a value is not a text on one line: an alias, a tag, a mapping in braces, or a text of several lines. */
export function isOtherForm(value: string): boolean {
  return /^[|>&*![{]/.test(value);
}
