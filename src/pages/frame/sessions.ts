import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { SessionLimits, SessionStore } from '../../storage/rows/index.ts';

/** What a browser would send with each request if it knew only the API. */
export interface BrowserLogin {
  /** The `Authorization` header. */
  readonly authorization: string;
  /** Address of the platform that issued the token. Default: the platform of the server. */
  readonly platformEndpoint?: string | undefined;
}

/** Logins of browsers. A session ends when it was not used for a time, and after its longest life. */
export interface Sessions {
  /** Begins a session. Returns the value of its cookie, which nobody can guess and which is stored nowhere. */
  begin(login: BrowserLogin, owner: string): Promise<string>;
  /** Returns the login of a session; undefined for one that has ended or never was. */
  find(cookie: string): Promise<BrowserLogin | undefined>;
  end(cookie: string): Promise<void>;
}

/** A session ends when it was not used for this time (ms). */
export const sessionIdleMs = 24 * 3_600_000;
/** Longest life of a session (ms). */
export const sessionLifeMs = 7 * 24 * 3_600_000;
/** A row has at most 11 KiB, so all sessions together take at most 55 MiB. */
const mostSessions = { ofOne: 50, inAll: 5000 };
// Not every page writes to the disk.
const touchMs = 10 * 60_000;
const cookieBytes = 32;

export function createSessions(
  store: SessionStore,
  limits: SessionLimits = mostSessions,
  now: () => number = Date.now,
): Sessions {
  return {
    async begin(login, owner) {
      const cookie = randomBytes(cookieBytes);
      const sealed = sealLogin(cookie, JSON.stringify(login));
      const session = { hash: hashOf(cookie), owner: hashOf(owner), sealed, at: now() };
      await store.insert(session, limits);
      return cookie.toString('base64url');
    },

    async find(text) {
      const cookie = bytesOf(text);
      const row = cookie && (await store.find(hashOf(cookie)));
      if (!row) return undefined;
      const at = now();
      if (at - row.usedAt > sessionIdleMs || at - row.createdAt > sessionLifeMs) return undefined;
      // A use that cannot be written is dropped.
      if (Math.abs(at - row.usedAt) > touchMs) store.touch(hashOf(cookie), at).catch(() => {});
      const login = openLogin(cookie, row.sealed);
      return login === undefined ? undefined : (JSON.parse(login) as BrowserLogin);
    },

    async end(text) {
      const cookie = bytesOf(text);
      if (cookie) await store.remove(hashOf(cookie));
    },
  };
}

function bytesOf(text: string): Buffer | undefined {
  if (!/^[\w-]{43}$/.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64url');
  return bytes.length === cookieBytes ? bytes : undefined;
}

function hashOf(value: Buffer | string): Buffer {
  return createHash('sha256').update(value).digest();
}

const ivBytes = 12;
const tagBytes = 16;
const keyPurpose = 'sluice session 1';

/** Encrypts the login of a session with a key that follows from the value of its cookie. Source: RFC 5869. */
function sealLogin(cookie: Buffer, login: string): Buffer {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv('aes-256-gcm', keyOf(cookie), iv);
  return Buffer.concat([iv, cipher.update(login, 'utf8'), cipher.final(), cipher.getAuthTag()]);
}

/** Returns the login of a session; undefined if the row was changed. */
function openLogin(cookie: Buffer, sealed: Buffer): string | undefined {
  try {
    const decipher = createDecipheriv('aes-256-gcm', keyOf(cookie), sealed.subarray(0, ivBytes));
    decipher.setAuthTag(sealed.subarray(-tagBytes));
    const text = decipher.update(sealed.subarray(ivBytes, -tagBytes));
    return Buffer.concat([text, decipher.final()]).toString('utf8');
  } catch {
    return undefined;
  }
}

function keyOf(cookie: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', cookie, Buffer.alloc(0), keyPurpose, 32));
}

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
