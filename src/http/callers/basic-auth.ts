import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import {
  type Account,
  type Accounts,
  type AdministratorRole,
  rolesOf,
} from '../../hosted/accounts/index.ts';
import type { AccountCheck } from '../../hosted/index.ts';
import type { LoginLimit } from '../limits/login-limit.ts';
import { noteSender } from '../request-state.ts';

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
): CheckAccount {
  return async request => {
    const basic = readBasic(request.headers.authorization);
    if (!basic) throw unknownAccount(accounts);
    // Check again before computing a hash: parallel logins have all passed the first check.
    const check = () => logins.check(request);
    check();
    const account = await accountCheck.find(basic.name, basic.password, check);
    if (account) {
      noteSender(request, { account: basic.name });
      return { ...account, name: basic.name };
    }
    logins.fail(request);
    throw unknownAccount(accounts);
  };
}

/**
 * Requires an administrator's account, and returns its roles. Throws a {@link Fault}: 403, which names the role, for
 * other accounts, and as {@link CheckAccount}.
 *
 * @param role default: any
 */
export type RequireAdministrator = (
  request: IncomingMessage,
  role?: AdministratorRole,
) => Promise<readonly AdministratorRole[]>;

/** Returns true for a request with the account of an administrator who has the role `site`. Throws a {@link Fault} (429, 503). */
export async function isSiteAdministrator(
  request: IncomingMessage,
  requireAdministrator: RequireAdministrator,
): Promise<boolean> {
  try {
    await requireAdministrator(request, 'site');
    return true;
  } catch (error) {
    if (!(error instanceof Fault) || !['unauthorized', 'denied'].includes(error.kind)) throw error;
    return false;
  }
}

export function createAdministratorCheck(checkAccount: CheckAccount): RequireAdministrator {
  return async (request, role) => {
    const roles = rolesOf(await checkAccount(request));
    if (roles.length === 0) {
      throw new Fault(
        'denied',
        "This account has rights to hosted repositories only: use an administrator's account",
        { phase: 'credentials' },
      );
    }
    if (role !== undefined) requireRole(roles, role);
    return roles;
  };
}

/** Throws a {@link Fault} (403) that names the role if it is not among those of an administrator. */
export function requireRole(roles: readonly AdministratorRole[], role: AdministratorRole): void {
  if (roles.includes(role)) return;
  throw new Fault(
    'denied',
    `This account lacks the administrator role '${role}': use an account that has it`,
    { phase: 'credentials' },
  );
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
