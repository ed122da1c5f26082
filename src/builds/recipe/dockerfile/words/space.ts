import { trim, trimStart } from '../../../../foundation/text/trim.ts';

const blank = /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$/;

/** Returns whether a character is Unicode white space by Go's `unicode.IsSpace`: BuildKit trims and splits there. */
export function isBlank(character: string): boolean {
  const code = character.charCodeAt(0);
  // A fast path for nearly all characters, without a pattern: every character of a file is checked here.
  if (code < 0x80) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return blank.test(character);
}

export function withoutIndent(text: string): string {
  return trimStart(text, isBlank);
}

export function trimBlanks(text: string): string {
  return trim(text, isBlank);
}
