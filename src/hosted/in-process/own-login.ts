import type { CheckLogin } from '../../upstream/index.ts';
import type { Authenticator } from '../authenticator.ts';

/**
 * Checks the accounts for a login to the server's own host, and asks other registries. Over the network, the server's
 * registry would see all users as one client, this server.
 */
export function withOwnLogin(
  ownHost: string,
  authenticator: Authenticator,
  others: CheckLogin,
): CheckLogin {
  return async (registry, credentials) => {
    if (registry !== ownHost) return others(registry, credentials);
    // Without accounts, every login succeeds, as it does at the server's `/v2/`.
    return (
      !authenticator.hasAccounts || (await authenticator.withCredentials(credentials)) !== undefined
    );
  };
}
