import { refuse } from './refuse.ts';

const maxBytes = 256 * 1024;
// A recipe outside a here-document or a script rarely has more than a hundred lines.
const maxLines = 10_000;

/** Length of the base64 text of the largest recipe. */
export const maxRecipeBase64 = Math.ceil(maxBytes / 3) * 4;

/**
 * Returns the text in a base64 field. Throws a `Fault` for a value that is not strict base64 (RFC 4648, section 4, with
 * padding and without line breaks), not UTF-8, empty, longer than 256 KiB, or has more than 10,000 lines.
 */
export function base64Text(field: string, base64: string): string {
  if (base64.length > maxRecipeBase64) {
    refuse(
      `'${field}' is longer than ${maxRecipeBase64} characters: put large files into 'buildContext'`,
    );
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
  if (linesIn(bytes) > maxLines)
    refuse(`'${field}' has more than ${maxLines} lines: put long files into 'buildContext'`);
  if (text.trim() === '') refuse(`'${field}' is empty: put the file's content in it`);
  if (text.includes('\0')) refuse(`'${field}' contains a NUL character: it is not a text file`);
  return text;
}

function linesIn(bytes: Buffer): number {
  let count = 1;
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) count += 1;
  return count;
}
