import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import type { AccountCheck } from '../../hosted/accounts/account-check.ts';
import type { Account, Accounts } from '../../hosted/accounts/accounts.ts';
import type { LoginLimit } from '../limits/login-limit.ts';
import type { Callers } from './callers.ts';

/** Returns the name and password in a Basic `Authorization` header; undefined for other headers. Source: RFC 7617. */
export function readBasic(
  header: string | undefined,
): { readonly name: string; readonly password: string } | undefined {
  const encoded = /^basic\s+([A-Za-z0-9+/=]+)\s*$/i.exec(header ?? '')?.[1];
  if (encoded === undefined) return undefined;
  const decoded = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = decoded.indexOf(':');
  // Some clients send an empty name and password for an anonymous call.
  if (colon <= 0) return undefined;
  return { name: decoded.slice(0, colon), password: decoded.slice(colon + 1) };
}

/**
 * Returns the account whose name and password are in the `Authorization` header of a request. Throws a {@link Fault}:
 * 401 with a challenge for a wrong or missing login, 429 for a caller with too many failed logins, 503 while too many
 * logins are being checked.
 */
export type CheckAccount = (
  request: IncomingMessage,
) => Promise<Account & { readonly name: string }>;

export function createCheckAccount(
  accounts: Accounts,
  accountCheck: Pick<AccountCheck, 'find'>,
  logins: LoginLimit,
  callers: Callers,
): CheckAccount {
  return async request => {
    const basic = readBasic(request.headers.authorization);
    if (!basic) throw unknownAccount(accounts);
    // Check again before computing a hash: parallel logins have all passed the first check.
    const check = () => logins.check(request);
    check();
    const account = await accountCheck.find(basic.name, basic.password, check);
    if (account) {
      callers.note(request, { account: basic.name });
      return { ...account, name: basic.name };
    }
    logins.fail(request);
    throw unknownAccount(accounts);
  };
}

/** Requires an administrator's account. Throws a {@link Fault}: 403 for other accounts, and as {@link CheckAccount}. */
export type RequireAdministrator = (request: IncomingMessage) => Promise<void>;

export function createAdministratorCheck(checkAccount: CheckAccount): RequireAdministrator {
  return async request => {
    const { repositories } = await checkAccount(request);
    if (repositories === undefined) return;
    throw new Fault(
      'denied',
      "This account has rights to hosted repositories only: use an administrator's account",
      {
        phase: 'credentials',
      },
    );
  };
}

function unknownAccount(accounts: Accounts): Fault {
  return new Fault(
    'unauthorized',
    accounts.size === 0
      ? 'This requires an account of the server, and none is configured: ask the operator to set SLUICE_ACCOUNTS'
      : 'This requires the name and password of an account of the server (HTTP basic)',
    {
      phase: 'credentials',
      headers: { 'www-authenticate': 'Basic realm="Sluice", charset="UTF-8"' },
    },
  );
}
