const blank = /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$/;

/** True for Unicode white space, as Go's `unicode.IsSpace` has it: what BuildKit trims and splits at. */
export function isBlank(character: string): boolean {
  const code = character.charCodeAt(0);
  // Nearly all of them, without a pattern: every character of a file comes by here.
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

/** The text without the last characters that are of a kind. No pattern: those take time by the square. */
export function trimEnd(text: string, isTrimmed: (character: string) => boolean): string {
  let end = text.length;
  while (end > 0 && isTrimmed(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}
