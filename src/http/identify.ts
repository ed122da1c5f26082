import type { IncomingMessage } from 'node:http';
import type { Claim, Identities, Identity } from '../platform/identities.ts';
import { isFailedLogin, type LoginLimit } from './login-limit.ts';

/**
 * Who sends a request with a claim in its body, as {@link Identities.identify}. Throws a `Fault` besides:
 * 429 for an access token where too many logins have failed.
 */
export type Identify = (request: IncomingMessage, claim: Claim) => Promise<Identity | undefined>;

export function createIdentify(
  identities: Pick<Identities, 'identify'>,
  logins: LoginLimit,
): Identify {
  return async (request, claim) => {
    if (claim.platformAccessToken) logins.check(request);
    try {
      return await identities.identify(claim);
    } catch (error) {
      if (isFailedLogin(error)) logins.fail(request);
      throw error;
    }
  };
}
