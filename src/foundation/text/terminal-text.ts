import { stripVTControlCharacters } from 'node:util';

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
