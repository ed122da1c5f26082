import { stripVTControlCharacters } from 'node:util';

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

/** Compares texts by their UTF-16 code units: the same order on every machine, and for ASCII that of bytes. */
export function compareTexts(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** Returns a number of bytes for people: `12.3 MB`. */
export function sizeText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = bytes < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bytes) / 3));
  return power === 0 ? `${bytes} B` : `${(bytes / 1000 ** power).toFixed(1)} ${units[power]}`;
}

/**
 * Returns an untrusted text, such as the name of a file, as one line to print. A terminal obeys control characters, so
 * each is a `?`.
 */
export function terminalLine(text: string): string {
  return text.replace(/\p{C}/gu, '?');
}

/** Returns an untrusted message with its line breaks. Colours are removed, see also {@link terminalLine}. */
export function terminalLines(text: string): string {
  const lines = stripVTControlCharacters(text).split(/\r\n|\r|\n/);
  return lines.map(line => terminalLine(line.replaceAll('\t', ' '))).join('\n');
}

/** Takes the match of a sticky pattern at the current position, and moves behind it; null where there is none. */
type TakePattern = (pattern: RegExp) => RegExpExecArray | null;

/** Returns a function that takes a text apart from its start, one pattern (with the flag `y`) at a time. */
export function takePatterns(text: string): TakePattern {
  let position = 0;
  return pattern => {
    pattern.lastIndex = position;
    const match = pattern.exec(text);
    if (match) position = pattern.lastIndex;
    return match;
  };
}
