import { Fault } from '../fault.ts';
import { fetchBearer } from './bearer.ts';
import { parseChallenges } from './challenge.ts';
import { basicHeader, type Credentials } from './credentials.ts';
import { endpointOf, type Registries, settingsOf } from './registry-settings.ts';
import type { Transport } from './transport.ts';

/**
 * True when a registry lets these credentials in, as `docker login` finds out; a registry that asks for none
 * lets everybody in. Throws what goes wrong on the way there.
 * Source: distribution specification, the end point `/v2/`; distribution, Token Authentication Specification.
 */
export type CheckLogin = (registry: string, credentials: Credentials) => Promise<boolean>;

export function createCheckLogin(transport: Transport, registries: Registries): CheckLogin {
  return async (registry, credentials) => {
    const endpoint = endpointOf(registries, registry);
    const ask = async (headers: Readonly<Record<string, string>>) => {
      const answer = await transport.send({
        url: new URL('/v2/', endpoint),
        method: 'GET',
        headers,
      });
      answer.body.destroy();
      return answer;
    };
    const first = await ask({});
    if (first.status !== 401) return first.status < 400;
    const challenges = parseChallenges(first.headers.get('www-authenticate') ?? '');
    const challenge = challenges.find(({ scheme }) => scheme === 'bearer');
    if (!challenge) {
      if (credentials.kind !== 'password') return false;
      const { username, password } = credentials;
      return (await ask({ authorization: basicHeader(username, password) })).status < 400;
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
    };
    try {
      const { token } = await fetchBearer(transport, asked);
      return (await ask({ authorization: `Bearer ${token}` })).status < 400;
    } catch (error) {
      if (error instanceof Fault && error.kind === 'denied') return false;
      throw error;
    }
  };
}
