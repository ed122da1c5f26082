import { faultOfError } from '../exchange/failure.ts';
import { endpointOf, type Registries, settingsOf } from '../registry-settings.ts';
import type { RetryPolicy } from '../transport/retry.ts';
import type { Transport } from '../transport/transport.ts';
import { type BearerToken, fetchBearer, type TokenRequest } from './bearer.ts';

/**
 * Fetches a token for a repository, from the token service in the registry's challenge. Throws a `Fault`: when the
 * credentials are rejected, and for a token service that does not belong to the registry.
 */
export type FetchToken = (
  asked: Pick<TokenRequest, 'registry' | 'repository' | 'scopes' | 'credentials' | 'challenge'>,
) => Promise<BearerToken>;

export function createFetchToken(
  transport: Transport,
  registries: Registries,
  retry: RetryPolicy,
): FetchToken {
  return async asked => {
    const { registry } = asked;
    const [endpoint, settings] = [
      endpointOf(registries, registry),
      settingsOf(registries, registry),
    ];
    try {
      return await fetchBearer(transport, { ...asked, endpoint, settings, retry });
    } catch (error) {
      throw faultOfError(error, asked, { what: `a token for ${asked.repository}` });
    }
  };
}
