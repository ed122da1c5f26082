import type { IncomingMessage } from 'node:http';
import { Fault } from '../fault.ts';
import { type Accounts, findAccount } from '../hosted/accounts.ts';
import type { LoginLimit } from './login-limit.ts';

/** Name and password of an `Authorization` header, undefined for another one. Source: RFC 7617. */
export function readBasic(
  header: string | undefined,
): { readonly name: string; readonly password: string } | undefined {
  const encoded = /^basic\s+([A-Za-z0-9+/=]+)\s*$/i.exec(header ?? '')?.[1];
  if (encoded === undefined) return undefined;
  const decoded = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = decoded.indexOf(':');
  // Some clients say "nobody" by an empty name and password.
  if (colon <= 0) return undefined;
  return { name: decoded.slice(0, colon), password: decoded.slice(colon + 1) };
}

/**
 * Lets a request through whose `Authorization` names an account that administers the service, and
 * its password; throws a {@link Fault} otherwise: 401 with a challenge, 403 for another account, 429 for
 * who has failed too often.
 */
export type RequireAdministrator = (request: IncomingMessage) => void;

export function createAdministratorCheck(
  accounts: Accounts,
  logins: LoginLimit,
): RequireAdministrator {
  return request => {
    const basic = readBasic(request.headers.authorization);
    if (!basic) throw unknownAccount(accounts);
    logins.check(request);
    const account = findAccount(accounts, basic.name, basic.password);
    if (!account) {
      logins.fail(request);
      throw unknownAccount(accounts);
    }
    if (account.repositories === undefined) return;
    throw new Fault('denied', 'This account has rights to repositories only', {
      phase: 'credentials',
    });
  };
}

function unknownAccount(accounts: Accounts): Fault {
  return new Fault(
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
