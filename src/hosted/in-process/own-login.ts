import type { CheckLogin } from '../../upstream/auth/login.ts';
import type { Keeper } from '../keeper.ts';

/**
 * Looks at the accounts for a login to the own host, and asks other registries. Over the network the own
 * registry would take all who try for one client, which is this server.
 */
export function withOwnLogin(ownHost: string, keeper: Keeper, others: CheckLogin): CheckLogin {
  return async (registry, credentials) => {
    if (registry !== ownHost) return others(registry, credentials);
    // Without accounts everybody is let in, as by the own `/v2/`.
    return !keeper.hasAccounts || (await keeper.withCredentials(credentials)) !== undefined;
  };
}
