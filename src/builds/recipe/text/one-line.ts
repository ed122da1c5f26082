import { refuse, shown } from './refuse.ts';

const maxLength = 8192;

/**
 * The text with the blanks around it cut off. Throws a `Fault` when nothing is left, and for what could
 * end a line in a Dockerfile, a YAML file or a shell: line breaks and all other control characters, and for what no line is
 * as long as.
 */
export function oneLine(field: string, text: string): string {
  const line = text.trim();
  if (line === '') refuse(`'${field}' is empty: fill it in or leave it out`);
  if (line.length > maxLength) refuse(`'${field}' is longer than ${maxLength} characters`);
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(line)) {
    refuse(`'${field}': ${shown(line)} contains a line break or control character: remove it`);
  }
  if (!line.isWellFormed()) refuse(`'${field}': ${shown(line)} is not well-formed Unicode`);
  return line;
}
