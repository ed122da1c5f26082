import { Fault } from '../../foundation/fault.ts';
import { basicHeader, type Credentials } from '../credentials.ts';
import { endpointOf, type Registries, settingsOf } from '../registry-settings.ts';
import type { RetryPolicy } from '../transport/retry.ts';
import type { Transport } from '../transport/transport.ts';
import { fetchBearer, parseChallenges } from './bearer.ts';

/**
 * Returns true when a registry accepts these credentials, checked as `docker login` does. A registry that requires no
 * credentials accepts all. Throws any error that prevents the check. Source: distribution specification, the end point
 * `/v2/`; distribution, Token Authentication Specification.
 */
export type CheckLogin = (registry: string, credentials: Credentials) => Promise<boolean>;

export function createCheckLogin(
  transport: Transport,
  registries: Registries,
  retry: RetryPolicy,
): CheckLogin {
  return async (registry, credentials) => {
    const endpoint = endpointOf(registries, registry);
    const ask = async (headers: Readonly<Record<string, string>>) => {
      const response = await transport.send({
        url: new URL('/v2/', endpoint),
        method: 'GET',
        headers,
      });
      response.body.destroy();
      return response;
    };
    const isLetIn = async (authorization: string) =>
      wasLetIn(registry, (await ask({ authorization })).status);
    const first = await ask({});
    if (first.status !== 401) return wasLetIn(registry, first.status);
    const challenges = parseChallenges(first.headers.get('www-authenticate') ?? '');
    const challenge = challenges.find(({ scheme }) => scheme === 'bearer');
    if (!challenge) {
      if (credentials.kind !== 'password') return false;
      const { username, password } = credentials;
      return isLetIn(basicHeader(username, password));
    }
    const settings = settingsOf(registries, registry);
    const asked = {
      registry,
      endpoint,
      repository: '',
      scopes: [],
      settings,
      credentials,
      challenge,
      retry,
    };
    try {
      const { token } = await fetchBearer(transport, asked);
      return await isLetIn(`Bearer ${token}`);
    } catch (error) {
      if (error instanceof Fault && error.kind === 'denied') return false;
      throw error;
    }
  };
}

/** Throws for an inconclusive status: a failing registry says nothing about a password. */
function wasLetIn(registry: string, status: number): boolean {
  // A website that redirects everything accepts every password, too.
  if (status < 300) return true;
  if (status === 401 || status === 403) return false;
  throw new Fault(
    'upstream',
    `The registry ${registry} answered ${status} to a login: try again later, and check that it is a registry`,
    { phase: 'upstream' },
  );
}
