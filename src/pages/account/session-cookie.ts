import type { IncomingMessage } from 'node:http';
import { sessionLifeMs } from './sessions.ts';

/** The cookie of a session. Source: RFC 6265bis, cookie name prefixes and SameSite. */
export interface SessionCookie {
  /** Returns the value that a browser sent; undefined for none. */
  read(request: IncomingMessage): string | undefined;
  /** Returns the header that sets it. */
  set(value: string): string;
  /** Returns the header that removes it. */
  remove(): string;
}

/** @param isSecure true if browsers reach the server by TLS */
export function createSessionCookie(isSecure: boolean): SessionCookie {
  // With this prefix no other host of the domain can set the cookie.
  const name = isSecure ? '__Host-sluice' : 'sluice_session';
  const header = (value: string, seconds: number) =>
    [
      `${name}=${value}`,
      ...['Path=/', `Max-Age=${seconds}`, 'HttpOnly', 'SameSite=Lax'],
      ...(isSecure ? ['Secure'] : []),
    ].join('; ');
  return {
    read({ headers: { cookie = '' } }) {
      for (const pair of cookie.split(';')) {
        const [key = '', value = ''] = pair.split('=', 2);
        if (key.trim() === name && value.trim() !== '') return value.trim();
      }
      return undefined;
    },
    set: value => header(value, sessionLifeMs / 1000),
    remove: () => header('', 0),
  };
}
