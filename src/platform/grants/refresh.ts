import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import type { Calls, Reply } from '../calls/calls.ts';
import type { Endpoint } from '../endpoint.ts';
import type { TokenPair } from './token-pairs.ts';

const documentSchema = z.object({
  access_token: z.string().nullish(),
  refresh_token: z.string().nullish(),
});

/**
 * Requests new tokens from a platform. They are in the cookies `JWT` and `JWT_REFRESH_TOKEN` of the response, or in
 * its JSON as defined in RFC 6749, section 5.1. Without a new refresh token, the old one stays valid. Throws a
 * {@link Fault}: 403 when the platform rejects the refresh token.
 */
export async function refreshTokens(
  calls: Calls,
  endpoint: Endpoint,
  refreshToken: string,
): Promise<TokenPair> {
  const reply = await calls({
    endpoint,
    method: 'POST',
    path: '/oauth/access_token',
    form: { grant_type: 'refresh_token', refresh_token: refreshToken },
    onBehalfOf: refreshToken,
  }).catch(error => {
    // 400 is how RFC 6749, section 5.2, reports an invalid token.
    throw error instanceof Fault && error.kind === 'bad-request' ? refused(endpoint, 400) : error;
  });
  if (reply.status >= 400) throw refused(endpoint, reply.status);
  const { access_token: fromBody, refresh_token: refreshFromBody } =
    documentSchema.safeParse(reply.document).data ?? {};
  const accessToken = cookie(reply, 'JWT') || fromBody;
  if (!accessToken) {
    throw new Fault(
      'upstream',
      `The platform ${endpoint.host} renewed the access token, but did not return the new one: create a new token there`,
      {
        phase: 'credentials',
      },
    );
  }
  return {
    accessToken,
    refreshToken: cookie(reply, 'JWT_REFRESH_TOKEN') || refreshFromBody || refreshToken,
  };
}

function refused({ host }: Endpoint, status: number): Fault {
  return new Fault(
    'denied',
    `The platform ${host} did not renew the expired access token (${status}): log in there again, or create a new token`,
    { phase: 'credentials' },
  );
}

/**
 * Several `Set-Cookie` lines arrive joined by commas, and dates within them contain commas. The search finds names
 * anyway.
 */
function cookie({ headers }: Reply, name: string): string | undefined {
  const line = headers.get('set-cookie') ?? '';
  return new RegExp(`(?:^|,)\\s*${name}="?([^;,"\\s]*)`).exec(line)?.[1];
}
