import { hasPathToken } from '../../../conda/channels/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { OciSyntaxError } from '../../../oci/naming.ts';

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

const plainCharacters = /^[A-Za-z0-9._~:/?@!&+,=%-]+$/;

/** Returns whether a text looks like a URL. */
export function isUrl(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9+.-]*:\/\//.test(text);
}

/**
 * Returns a URL that may be used unchanged in a Dockerfile or YAML file. Throws a `Fault` for a protocol that is not
 * among those given, for characters with a meaning in a shell or a Dockerfile (write them as %XX), and for credentials:
 * recipes and logs are not secret.
 */
export function plainUrl(field: string, text: string, protocols: readonly string[]): string {
  const url = oneLine(field, text);
  const protocol = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(url)?.[1]?.toLowerCase() ?? '';
  if (!protocols.includes(protocol)) {
    refuse(`'${field}': ${shown(url)} is not a ${protocols.join(' or ')} address`);
  }
  if (hasCredentials(url)) {
    refuse(
      `'${field}' contains credentials in an address: recipes and logs are not secret, so remove them`,
    );
  }
  if (!plainCharacters.test(url) || !URL.canParse(url)) {
    refuse(`'${field}': ${shown(url)} is not a plain address: write unusual characters as %XX`);
  }
  return url;
}

/**
 * Returns an address of a channel or below one, as {@link plainUrl} does. Also throws a `Fault` for a token in its path.
 */
export function tokenFreeUrl(field: string, text: string, protocols: readonly string[]): string {
  refusePathToken(field, text);
  return plainUrl(field, text, protocols);
}

/**
 * Throws a `Fault` for a web address or a name of a channel with a token in its path: recipes and logs are not secret.
 */
export function refusePathToken(field: string, text: string): void {
  if (/^(?:file|oci):/i.test(text) || !hasPathToken(text)) return;
  refuse(
    `'${field}' contains a token in an address: recipes and logs are not secret, so remove it. The operator can list the channel with its token`,
  );
}

/** Returns whether an address in the text names a user with a password, or any user of a web server. */
export function hasCredentials(text: string): boolean {
  return /\bhttps?:\/\/[^/\s]*@|:\/\/[^/\s@:]*:[^/\s@]*@/i.test(text);
}

/** Throws the {@link Fault} for a request that cannot be built: 400. */
export function refuse(message: string): never {
  throw new Fault('bad-request', message, { phase: 'request' });
}

/** Returns a text of the request for use in a message: short, on one line. */
export function shown(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?');
  return plain.length > 80 ? `'${plain.slice(0, 80)}...'` : `'${plain}'`;
}

/** Reads the value of one field. Reports an invalid value as a bad request that names the field. */
export function inField<T>(field: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof OciSyntaxError)) throw error;
    throw new Fault('bad-request', `'${field}': ${error.message}`, { phase: 'request' });
  }
}
