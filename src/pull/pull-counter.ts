import { boundedCache } from '../foundation/bounded-cache.ts';

const windowMs = 30_000;
const maxClients = 100_000;

/**
 * Counts pulls, not requests. One pull requests several manifests, often the same one twice: all requests of one client
 * through one token within half a minute are one pull.
 */
export interface PullCounter {
  /** Returns true while a pull of the client is already counted. */
  isRunning(client: string, token: string): boolean;
  /** Marks a pull of the client as counted. */
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
