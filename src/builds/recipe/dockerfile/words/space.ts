const blank = /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$/;

/** Returns whether a character is Unicode white space by Go's `unicode.IsSpace`: BuildKit trims and splits there. */
export function isBlank(character: string): boolean {
  const code = character.charCodeAt(0);
  // A fast path for nearly all characters, without a pattern: every character of a file is checked here.
  if (code < 0x80) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return blank.test(character);
}

export function trimStart(text: string): string {
  let start = 0;
  while (start < text.length && isBlank(text.charAt(start))) start += 1;
  return text.slice(start);
}

export function trimBlanks(text: string): string {
  return trimEnd(trimStart(text), isBlank);
}

/** Returns the text without its last characters of a kind. Uses no pattern: patterns take quadratic time here. */
export function trimEnd(text: string, isTrimmed: (character: string) => boolean): string {
  let end = text.length;
  while (end > 0 && isTrimmed(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}
