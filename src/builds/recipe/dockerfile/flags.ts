import { isBlank } from './words/space.ts';

/** The options of an instruction, each `--name=value` without quotes, and the text after them. */
export interface Flagged {
  readonly flags: readonly string[];
  readonly rest: string;
}

/**
 * Splits the options from the arguments of an instruction. Quotes and escape characters join text; `--` ends the
 * options. Treats bytes as characters, as BuildKit does: BuildKit garbles a non-ASCII option, and this function must
 * garble it in the same way. Source: BuildKit's behaviour, `frontend/dockerfile/parser`.
 */
export function splitFlags(text: string, escapeMark: string): Flagged {
  const line = Buffer.from(text, 'utf8').toString('latin1');
  const restAt = (position: number) => Buffer.from(line.slice(position), 'latin1').toString('utf8');
  const flags: string[] = [];
  let position = 0;
  for (;;) {
    while (position < line.length && isBlank(line.charAt(position))) position += 1;
    if (!line.startsWith('--', position)) return { flags, rest: restAt(position) };
    let word = '';
    let isQuoted = false;
    let quote = '';
    for (; position < line.length; position += 1) {
      let character = line.charAt(position);
      if (quote === '' && isBlank(character)) break;
      if (quote === '' && (character === "'" || character === '"')) {
        quote = character;
        isQuoted = true;
        continue;
      }
      if (quote !== '' && character === quote) {
        quote = '';
        continue;
      }
      if (character === escapeMark) {
        position += 1;
        if (position >= line.length) break;
        character = line.charAt(position);
      }
      word += character;
    }
    const isEnd = position >= line.length;
    if (word === '--') return { flags, rest: isEnd ? '' : restAt(position) };
    if (isQuoted || word !== '') flags.push(word);
    if (isEnd) return { flags, rest: '' };
  }
}

/** Returns the values of an option in the given order; an option without `=` counts as empty. */
export function valuesOf(flags: readonly string[], name: string): readonly string[] {
  return flags
    .filter(flag => flag === `--${name}` || flag.startsWith(`--${name}=`))
    .map(flag => flag.slice(name.length + 3));
}
