import { createHash, timingSafeEqual } from 'node:crypto';
import { Fault } from '../fault.ts';

/** Passwords by account name. */
export type Accounts = ReadonlyMap<string, string>;

/**
 * Lets a request through whose `Authorization` names an account and its password; throws a
 * {@link Fault} (401 with a challenge) otherwise. Source: RFC 7617.
 */
export function requireAccount(header: string | undefined, accounts: Accounts): void {
  const encoded = /^basic\s+([A-Za-z0-9+/=]+)\s*$/i.exec(header ?? '')?.[1] ?? '';
  const decoded = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = decoded.indexOf(':');
  const name = decoded.slice(0, Math.max(colon, 0));
  const expected = accounts.get(name);
  // Compared also for an unknown name, so that the time does not tell which names exist.
  const matches = isEqual(decoded.slice(colon + 1), expected ?? '');
  if (colon > 0 && expected !== undefined && matches) return;
  throw new Fault(
    'unauthorized',
    accounts.size === 0
      ? 'This needs an account of the service, of which none is configured: set SLUICE_ACCOUNTS'
      : 'This needs the name and password of an account of the service (HTTP basic)',
    {
      phase: 'credentials',
      headers: { 'www-authenticate': 'Basic realm="Sluice", charset="UTF-8"' },
    },
  );
}

function isEqual(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
