/** Returns whether a character is to be removed. */
type IsTrimmed = (character: string) => boolean;

// A pattern such as `/ +$/` takes quadratic time: it counts the blanks again from each blank of a longer text.

export function trimStart(text: string, isTrimmed: IsTrimmed): string {
  let start = 0;
  while (start < text.length && isTrimmed(text.charAt(start))) start += 1;
  return text.slice(start);
}

export function trimEnd(text: string, isTrimmed: IsTrimmed): string {
  let end = text.length;
  while (end > 0 && isTrimmed(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

export function trim(text: string, isTrimmed: IsTrimmed): string {
  return trimEnd(trimStart(text, isTrimmed), isTrimmed);
}

/** Returns a path or an address without the slashes at its end. */
export function withoutSlashes(text: string): string {
  return trimEnd(text, character => character === '/');
}
