import { cacheOfBytes } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Access } from '../access.ts';
import { basicHeader, credentialKey } from '../credentials.ts';
import { endpointOf, type Registries, settingsOf } from '../registry-settings.ts';
import type { RetryPolicy } from '../transport/retry.ts';
import type { Transport } from '../transport/transport.ts';
import { type BearerToken, type Challenge, fetchBearer } from './bearer.ts';

export interface Authorizer {
  /** Returns the first `Authorization` value, from what is known of the registry; undefined for none. */
  known(access: Access, signal?: AbortSignal): Promise<string | undefined>;
  /** Returns the value for a retry after a 401; undefined when nothing better than `refused` is available. */
  respond(
    access: Access,
    challenges: readonly Challenge[],
    refused: string | undefined,
    signal?: AbortSignal,
  ): Promise<string | undefined>;
  /** Forgets how to log in, after the registry has refused the value: its next request begins without one. */
  forget(access: Access, refused: string | undefined): void;
}

// Room for several thousand usual tokens, and as many challenges. Registries choose their length.
const tokenBytes = 16 * 1024 * 1024;
const challengeBytes = 8 * 1024 * 1024;

interface KeptToken extends BearerToken {
  /** ms of `performance.now()`: from then on, the token service checks again whether the credentials are valid. */
  readonly checkAt: number;
}

/**
 * Caches the challenges of registries and their bearer tokens, separately for each repository and credentials.
 *
 * @param rightLifeMs how long a token for credentials that pull is used before the token service is asked again
 */
export function createAuthorizer(
  transport: Transport,
  registries: Registries,
  rightLifeMs: number,
  retry: RetryPolicy,
): Authorizer {
  const challenges = cacheOfBytes<string, Challenge>(challengeBytes, sizeOfChallenge);
  const tokens = cacheOfBytes<string, KeptToken>(
    tokenBytes,
    ({ token }, key) => token.length + key.length,
  );
  const running = new SingleFlight<BearerToken>();

  const bearer = async (access: Access, challenge: Challenge, signal?: AbortSignal) => {
    const key = keyOf(access);
    const kept = tokens.get(key);
    const isGood = () => kept !== undefined && kept.expiresAt > performance.now();
    if (kept && isGood() && kept.checkAt > performance.now()) return `Bearer ${kept.token}`;
    const fetch = () =>
      fetchBearer(transport, {
        ...access,
        scopes: scopesOf(access),
        endpoint: endpointOf(registries, access.registry),
        settings: settingsOf(registries, access.registry),
        challenge,
        retry,
      });
    try {
      // All callers that need this token share one request, which goes on when they leave: others need it soon.
      const token = await running.run(fetch, { key });
      signal?.throwIfAborted();
      const isChecked = access.credentials !== undefined && access.pushes === undefined;
      const checkAt = isChecked ? performance.now() + rightLifeMs : Number.POSITIVE_INFINITY;
      tokens.set(key, { ...token, checkAt });
      return `Bearer ${token.token}`;
    } catch (error) {
      const isRefused = error instanceof Fault && error.kind === 'denied';
      if (isRefused) tokens.delete(key);
      // A token service that does not respond has not rejected the credentials.
      if (kept && isGood() && !isRefused && !signal?.aborted) return `Bearer ${kept.token}`;
      throw error;
    }
  };

  const respond = async (access: Access, challenge: Challenge, signal?: AbortSignal) => {
    if (challenge.scheme === 'bearer') return bearer(access, challenge, signal);
    const { credentials } = access;
    return credentials?.kind === 'password'
      ? basicHeader(credentials.username, credentials.password)
      : undefined;
  };

  const dropToken = (access: Access, refused: string | undefined) => {
    const key = keyOf(access);
    if (refused === `Bearer ${tokens.peek(key)?.token}`) tokens.delete(key);
  };

  return {
    async known(access, signal) {
      const name = nameOf(access);
      const challenge = challenges.get(name);
      if (!challenge) return undefined;
      try {
        return await respond(access, challenge, signal);
      } catch (error) {
        signal?.throwIfAborted();
        if (access.pushes) throw error;
        // The token service may have moved, or the registry may need no login now: the next request shows this.
        challenges.delete(name);
        return undefined;
      }
    },

    async respond(access, offered, refused, signal) {
      const challenge =
        offered.find(({ scheme }) => scheme === 'bearer') ??
        offered.find(({ scheme }) => scheme === 'basic');
      if (!challenge) return undefined;
      challenges.set(nameOf(access), challenge);
      dropToken(access, refused);
      const value = await respond(access, challenge, signal);
      return value === refused ? undefined : value;
    },

    forget(access, refused) {
      challenges.delete(nameOf(access));
      dropToken(access, refused);
    },
  };
}

function sizeOfChallenge({ scheme, parameters }: Challenge, key: string): number {
  const lengths = Object.entries(parameters).map(
    ([name, value]) => 100 + name.length + value.length,
  );
  return lengths.reduce((sum, length) => sum + length, scheme.length + key.length);
}

function nameOf({ registry, repository }: Access): string {
  return `${registry} ${repository}`;
}

function keyOf(access: Access): string {
  return `${access.registry} ${scopesOf(access).join(' ')} ${credentialKey(access.credentials)}`;
}

/** Source: distribution, Token Scope Documentation. */
function scopesOf({ repository, pushes }: Access): readonly string[] {
  if (!pushes) return [`repository:${repository}:pull`];
  const { mountFrom } = pushes;
  const mounted = mountFrom === undefined ? [] : [`repository:${mountFrom}:pull`];
  return [`repository:${repository}:pull,push`, ...mounted];
}
