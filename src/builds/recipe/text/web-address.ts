import { oneLine } from './one-line.ts';
import { refuse, shown } from './refuse.ts';

const plainCharacters = /^[A-Za-z0-9._~:/?@!&+,=%-]+$/;

/** True for what means to be a URL. */
export function isUrl(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9+.-]*:\/\//.test(text);
}

/**
 * A URL that may stand in a Dockerfile or YAML file as it is. Throws a `Fault` for another protocol than
 * those given, for characters that mean something to a shell or to the Dockerfile (they can be written
 * as %XX), and for credentials: recipes and logs are not secret.
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

/** True when an address in the text names a user with a password, or any user of a web server. */
export function hasCredentials(text: string): boolean {
  return /\bhttps?:\/\/[^/\s]*@|:\/\/[^/\s@]*:[^/\s@]*@/i.test(text);
}
