import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import type { Claim, Identities, Identity } from '../../platform/index.ts';
import { isFailedLogin, type LoginLimit } from '../limits/login-limit.ts';
import { noteSender } from '../request-state.ts';
import { type CheckAccount, readBasic } from './basic-auth.ts';

/**
 * Identifies the sender of a request by the access token in its body or its `Authorization` header, or by the name
 * and password of an account in that header. Returns undefined if the request has neither. Throws a `Fault`: as
 * {@link Identities.identify}, 401 for a wrong password, 429 after too many failed logins.
 */
export type Identify = (
  request: IncomingMessage,
  claim: Claim,
) => Promise<Omit<Identity, 'name'> | undefined>;

export interface IdentifyDeps {
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
