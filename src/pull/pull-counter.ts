import { LRUCache } from 'lru-cache';

const windowMs = 30_000;
const maxClients = 100_000;

/**
 * Tells the pulls apart from the requests they are made of. One pull asks for several manifests, often
 * for the same one twice: what one client asks through one token within half a minute is one pull.
 */
export interface PullCounter {
  /** True once for each pull. */
  begins(client: string, token: string): boolean;
  /** True while a pull of the client is counted already. */
  isRunning(client: string, token: string): boolean;
}

export function createPullCounter(): PullCounter {
  const running = new LRUCache<string, true>({ max: maxClients, ttl: windowMs });
  const keyOf = (client: string, token: string) => `${client} ${token}`;
  return {
    isRunning: (client, token) => running.has(keyOf(client, token)),
    begins(client, token) {
      const key = keyOf(client, token);
      if (running.has(key)) return false;
      running.set(key, true);
      return true;
    },
  };
}
