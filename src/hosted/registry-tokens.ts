import { SignJWT } from 'jose/jwt/sign';
import { jwtVerify } from 'jose/jwt/verify';
import { boundedCache } from '../foundation/bounded-cache.ts';
import type { Action } from './rights.ts';

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

export interface IssuedToken extends RegistryToken {
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
