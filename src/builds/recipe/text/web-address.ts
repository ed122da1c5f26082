import { hasPathToken } from '../../../conda/channels/index.ts';
import { oneLine } from './one-line.ts';
import { refuse, shown } from './refuse.ts';

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
