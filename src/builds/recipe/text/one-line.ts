import { refuse, shown } from './refuse.ts';

const maxLength = 8192;

/**
 * Returns the text without surrounding blanks. Throws a `Fault` for an empty text, for a text that is too long for a
 * line, and for line breaks and all other control characters: they could end a line in a Dockerfile, a YAML file or a
 * shell.
 */
export function oneLine(field: string, text: string): string {
  const line = text.trim();
  if (line === '') refuse(`'${field}' is empty: fill it in or leave it out`);
  if (line.length > maxLength) {
    refuse(
      `'${field}' is longer than the ${maxLength} characters that a line can have: shorten it`,
    );
  }
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(line)) {
    refuse(`'${field}': ${shown(line)} contains a line break or control character: remove it`);
  }
  if (!line.isWellFormed())
    refuse(`'${field}': ${shown(line)} is not well-formed Unicode: send it as UTF-8`);
  return line;
}
