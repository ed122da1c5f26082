import { refuse } from './refuse.ts';

const maxLength = 1024 * 1024;

/**
 * The text in a base64 field. Throws a `Fault` for what is not strict base64 (RFC 4648, section 4, with
 * padding and without line breaks), not UTF-8, empty, or
 * longer than a MiB.
 */
export function base64Text(field: string, base64: string): string {
  if (base64.length > maxLength) {
    refuse(`'${field}' is longer than ${maxLength} characters: it is too large to be a recipe`);
  }
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.toString('base64') !== base64) {
    refuse(`'${field}' is not base64: encode the file's content (RFC 4648, no line breaks)`);
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    refuse(`'${field}' is not UTF-8 text: send the file itself, base64-encoded`);
  }
  if (text.trim() === '') refuse(`'${field}' is empty: put the file's content in it`);
  if (text.includes('\0')) refuse(`'${field}' has a NUL character in it: it is not a text file`);
  return text;
}
