import { isBlank } from './words/space.ts';

/** The options of an instruction, `--name=value` each with quotes removed, and what comes after them. */
export interface Flagged {
  readonly flags: readonly string[];
  readonly rest: string;
}

/**
 * Takes the options off the arguments of an instruction. Quotes and escape characters join what belongs
 * together; `--` ends the options. Bytes are taken for characters, as BuildKit takes them: a non-ASCII
 * option is mangled there, and has to be mangled here.
 * Source: BuildKit's behaviour, `frontend/dockerfile/parser`.
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

/** The values of an option in the order they were given; one without `=` counts as empty. */
export function valuesOf(flags: readonly string[], name: string): readonly string[] {
  return flags
    .filter(flag => flag === `--${name}` || flag.startsWith(`--${name}=`))
    .map(flag => flag.slice(name.length + 3));
}
