import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import {
  type Account,
  type Accounts,
  type AdministratorRole,
  rolesOf,
} from '../../hosted/accounts/index.ts';
import type { AccountCheck } from '../../hosted/index.ts';
import type { Claim, Identities, Identity } from '../../platform/index.ts';
import { isFailedLogin, type LoginLimit } from '../limits/limiter.ts';
import { noteSender } from '../request-state.ts';

/**
 * Identifies the sender of a request by the access token in its body or its `Authorization` header, or by the name
 * and password of an account in that header. Returns undefined if the request has neither. Throws a `Fault`: as
 * {@link Identities.identify}, 401 for a wrong password, 429 after too many failed logins.
 */
export type Identify = (
  request: IncomingMessage,
  claim: Claim,
) => Promise<Omit<Identity, 'name'> | undefined>;

interface IdentifyDeps {
  readonly identities: Pick<Identities, 'identify' | 'ofAccount' | 'isForOwnPlatform'>;
  readonly checkAccount: CheckAccount;
  readonly logins: LoginLimit;
}

const keptTokens = 20_000;
// Longer than the pauses of a pipeline. The platform still checks the token of each call.
const keptMs = 24 * 3_600_000;

export function createIdentify(deps: IdentifyDeps): Identify {
  const { identities, checkAccount, logins } = deps;
  // Hashes of the access tokens that a platform has accepted.
  const good = boundedCache<string, true>(keptTokens, { ttl: keptMs });

  const byToken = async (request: IncomingMessage, claim: Claim) => {
    const key = hashOf(claim);
    // Accept a good token even after many failures from the same address: nobody can guess a token. The limit keeps
    // invented tokens from reaching other platforms.
    const isUnknown = !identities.isForOwnPlatform(claim) && !good.has(key);
    if (isUnknown) logins.check(request);
    try {
      const identity = await identities.identify(claim);
      good.set(key, true);
      return identity;
    } catch (error) {
      if (!isFailedLogin(error)) throw error;
      good.delete(key);
      logins.check(request);
      logins.fail(request);
      throw error;
    }
  };

  return async (request, claim) => {
    const { authorization } = request.headers;
    const platformAccessToken = claim.platformAccessToken || readBearer(authorization);
    if (platformAccessToken) {
      const identity = await byToken(request, { ...claim, platformAccessToken });
      if (!identity) return undefined;
      const { name, ...others } = identity;
      noteSender(request, { user: name });
      return others;
    }
    if (!readBasic(authorization)) return undefined;
    const { name: _, ...others } = identities.ofAccount((await checkAccount(request)).name);
    return others;
  };
}

function hashOf({ platformEndpoint, platformAccessToken }: Claim): string {
  const text = JSON.stringify([platformEndpoint, platformAccessToken]);
  return createHash('sha256').update(text).digest('base64url');
}

/** Returns the token in a Bearer `Authorization` header; undefined for other headers. Source: RFC 6750. */
export function readBearer(header: string | undefined): string | undefined {
  return /^bearer\s+(\S+)\s*$/i.exec(header ?? '')?.[1];
}

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
type CheckAccount = (request: IncomingMessage) => Promise<Account & { readonly name: string }>;

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
