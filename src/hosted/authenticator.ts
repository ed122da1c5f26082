import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';
import { boundedCache } from '../foundation/bounded-cache.ts';
import type { Credentials } from '../upstream/auth/index.ts';
import type { AccountCheck } from './accounts/account-check.ts';
import type { Accounts } from './accounts/accounts.ts';
import { type Action, accountRights, commonRights, pullRights, type Rights } from './rights.ts';
import { contextPrefix } from './uploads/context-repository.ts';

/** The user name of clients that send a bearer token in place of a password. */
export const tokenName = 'token';

/** Turns credentials into rights. */
export interface Authenticator {
  /** True when accounts exist, or can be added while the server runs. */
  readonly hasAccounts: boolean;
  /** True for the name of an account. */
  knows(name: string): boolean;
  /** Rights of callers without a login. */
  readonly anybody: Rights;
  /**
   * Returns the rights of a name and password, undefined when they are wrong. Under the name {@link tokenName} the
   * password is a bearer token, for clients that support passwords only.
   *
   * @param beforeHash see {@link AccountCheck.find}
   */
  withPassword(
    name: string,
    password: string,
    beforeHash?: () => void,
  ): Promise<Rights | undefined>;
  /**
   * Returns the rights of credentials sent to a registry; without credentials, the rights of callers without a login.
   */
  withCredentials(credentials: Credentials | undefined): Promise<Rights | undefined>;
  /** Returns the rights that a bearer token gives; undefined for an invalid token. */
  withToken(text: string): Promise<Rights | undefined>;
  /**
   * Returns the rights of the holder of a bearer token that may list repositories; undefined for all other tokens.
   */
  toList(text: string): Promise<Rights | undefined>;
}

interface AuthenticatorDeps {
  readonly accounts: Accounts;
  readonly accountCheck: Pick<AccountCheck, 'find'>;
  /** True when accounts can be added while the server runs. */
  readonly hasAccountFiles: boolean;
  /** Patterns of the repositories that callers without a login may pull. */
  readonly anonymous: readonly string[];
  readonly tokens: RegistryTokens;
}

export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const { accounts, accountCheck, hasAccountFiles, anonymous, tokens } = deps;
  const open = pullRights(anonymous);
  // Build contexts contain sources that their owner has shown to this server only, so `*` does not include them.
  const anybody: Rights = repository =>
    repository.startsWith(contextPrefix) ? [] : open(repository);
  const withToken = async (text: string): Promise<Rights | undefined> => {
    const token = await tokens.read(text);
    if (!token) return undefined;
    const { account, access } = token;
    const granted: Rights = repository =>
      // containerd 1.6 requests one repository twice, to pull and to push.
      access.filter(({ name }) => name === repository).flatMap(({ actions }) => actions);
    if (account === undefined) return granted;
    // The account may have lost rights, or have been removed, since the token was issued.
    const holder = accounts.get(account);
    return holder && commonRights(granted, accountRights(holder, anybody));
  };

  const withPassword: Authenticator['withPassword'] = async (name, password, beforeHash) => {
    if (name === tokenName) return withToken(password);
    const account = await accountCheck.find(name, password, beforeHash);
    return account && accountRights(account, anybody);
  };

  return {
    hasAccounts: hasAccountFiles || accounts.size > 0,
    knows: name => accounts.has(name),
    anybody,
    withToken,

    async toList(text) {
      const token = await tokens.read(text);
      if (!token?.mayList) return undefined;
      if (token.account === undefined) return anybody;
      const holder = accounts.get(token.account);
      return holder && accountRights(holder, anybody);
    },

    withPassword,

    async withCredentials(credentials) {
      return credentials?.kind === 'password'
        ? withPassword(credentials.username, credentials.password)
        : anybody;
    },
  };
}

/** The rights of a bearer token. Source: distribution's token authentication, the claim `access`. */
export interface RepositoryAccess {
  readonly type: 'repository';
  readonly name: string;
  readonly actions: readonly Action[];
}

export interface RegistryToken {
  /** Name of the account that it was issued for; undefined for a caller without a login and for a builder. */
  readonly account?: string | undefined;
  /** E-mail address or name of the user of a platform that it was issued for, for logs. It gives no rights. */
  readonly user?: string | undefined;
  readonly access: readonly RepositoryAccess[];
  /** True for a token that may list the repositories of its holder. */
  readonly mayList?: boolean;
}

interface IssuedToken extends RegistryToken {
  /** ms since the epoch */
  readonly expiresAt: number;
}

/** The entry of a token that may list repositories. Source: distribution's token scopes, resource type `registry`. */
const catalogAccess = { type: 'registry', name: 'catalog', actions: ['*'] } as const;

type Access = RepositoryAccess | typeof catalogAccess;

/** Short-lived bearer tokens for the hosted repositories: JSON Web Tokens that only this service reads. */
export interface RegistryTokens {
  /** The audience, and the `service` of challenges. */
  readonly service: string;
  /** Signs a token that is valid for the given time (ms). */
  issue(token: RegistryToken, lifeMs: number): Promise<string>;
  /** Returns the content of a token; undefined when another service issued it, it was changed, or it has expired. */
  read(text: string): Promise<IssuedToken | undefined>;
}

/** Returns true for a token that allows its holder to pull from a repository, hosted or served. */
export function allowsPull({ access }: RegistryToken, repository: string): boolean {
  return access.some(({ name, actions }) => name === repository && actions.includes('pull'));
}

const algorithm = 'HS256';

/**
 * @param key at least 32 bytes; all replicas of the service need the same key
 * @param service host that names begin with
 */
export function createRegistryTokens(key: Uint8Array, service: string): RegistryTokens {
  const known = boundedCache<string, IssuedToken>(1000);
  return {
    service,

    async issue({ account, user, access: repositories, mayList }, lifeMs) {
      const access: Access[] = [...repositories, ...(mayList ? [catalogAccess] : [])];
      const seconds = Math.floor(Date.now() / 1000);
      return new SignJWT({ access, user })
        .setProtectedHeader({ alg: algorithm })
        .setIssuer(service)
        .setAudience(service)
        .setSubject(account ?? '')
        .setIssuedAt(seconds)
        .setExpirationTime(seconds + Math.ceil(lifeMs / 1000))
        .sign(key);
    },

    async read(text) {
      const before = known.get(text);
      if (before) return before.expiresAt > Date.now() ? before : undefined;
      try {
        const { payload } = await jwtVerify(text, key, {
          algorithms: [algorithm],
          issuer: service,
          audience: service,
        });
        const access = payload.access as Access[];
        const token: IssuedToken = {
          ...(payload.sub ? { account: payload.sub } : {}),
          ...(typeof payload.user === 'string' ? { user: payload.user } : {}),
          access: access.filter(entry => entry.type === 'repository'),
          ...(access.some(({ type }) => type === 'registry') ? { mayList: true } : {}),
          expiresAt: (payload.exp ?? 0) * 1000,
        };
        known.set(text, token);
        return token;
      } catch {
        return undefined;
      }
    },
  };
}
