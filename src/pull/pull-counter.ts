import { boundedCache } from '../foundation/bounded-cache.ts';

const windowMs = 30_000;
const maxClients = 100_000;

/**
 * Tells the pulls apart from the requests they are made of. One pull asks for several manifests, often
 * for the same one twice: what one client asks through one token within half a minute is one pull.
 */
export interface PullCounter {
  /** True while a pull of the client is counted already. */
  isRunning(client: string, token: string): boolean;
  /** From now on it is. */
  begin(client: string, token: string): void;
}

export function createPullCounter(now: () => number = () => performance.now()): PullCounter {
  const running = boundedCache<string, true>(maxClients, {
    ttl: windowMs,
    ttlResolution: 0,
    perf: { now },
  });
  const keyOf = (client: string, token: string) => `${client} ${token}`;
  return {
    isRunning: (client, token) => running.has(keyOf(client, token)),
    begin(client, token) {
      running.set(keyOf(client, token), true);
    },
  };
}
