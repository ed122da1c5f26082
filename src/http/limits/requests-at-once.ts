import { Fault } from '../../foundation/fault.ts';
import { callerAddress, networkOf } from '../client-address.ts';
import type { Check } from '../request-state.ts';

/**
 * Limits how many requests of one client run at once. For servers behind proxies: there, a limit of connections
 * would count all clients as one.
 */
export function limitRequestsAtOnce(most: number, trustedProxies: number): Check {
  const inFlight = new Map<string, number>();
  return ({ req, res }) => {
    const client = networkOf(callerAddress(req, trustedProxies));
    const count = inFlight.get(client) ?? 0;
    if (count >= most) {
      throw new Fault(
        'too-many-requests',
        `${most} requests from your address are in progress: wait for their responses first`,
        { phase: 'limit', limit: 'requests at once from one address', retryAfterSeconds: 5 },
      );
    }
    inFlight.set(client, count + 1);
    res.once('close', () => {
      const left = (inFlight.get(client) ?? 0) - 1;
      if (left > 0) inFlight.set(client, left);
      else inFlight.delete(client);
    });
  };
}
