import type { LRUCache } from 'lru-cache';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';

/**
 * Caches the responses of platforms for each grant: no caller receives a response meant for another. Simultaneous equal
 * requests are sent once.
 */
export interface GrantCache {
  /** Returns the cached value, or loads it and keeps it for `lifeMs`. A failure is not kept. */
  get<T>(grant: string, request: string, lifeMs: number, load: () => Promise<T>): Promise<T>;
  put(grant: string, request: string, lifeMs: number, response: unknown): void;
  /** Drops one response. */
  drop(grant: string, request: string): void;
  /** Drops all responses for a grant, including those to requests in flight. */
  forget(grant: string): void;
}

interface Kept {
  readonly response: unknown;
  readonly until: number;
}

interface Known {
  readonly kept: LRUCache<string, Kept>;
  readonly requests: SingleFlight<unknown>;
}

const maxGrants = 10_000;
const maxResponses = 500;

/** @param now ms on a scale that changes of the wall clock do not affect */
export function createGrantCache(now: () => number = () => performance.now()): GrantCache {
  const grants = boundedCache<string, Known>(maxGrants);

  const knownOf = (grant: string): Known => {
    const known = grants.get(grant) ?? {
      kept: boundedCache<string, Kept>(maxResponses),
      requests: new SingleFlight(),
    };
    grants.set(grant, known);
    return known;
  };

  return {
    get<T>(grant: string, request: string, lifeMs: number, load: () => Promise<T>): Promise<T> {
      // A response goes to the entry where its request began; after `forget` that entry is gone.
      const { kept, requests } = knownOf(grant);
      const found = kept.get(request);
      if (found && now() < found.until) return Promise.resolve(found.response as T);
      const ask = async () => {
        const response = await load();
        kept.set(request, { response, until: now() + lifeMs });
        return response;
      };
      return requests.run(ask, { key: request }) as Promise<T>;
    },

    put(grant, request, lifeMs, response) {
      knownOf(grant).kept.set(request, { response, until: now() + lifeMs });
    },

    drop(grant, request) {
      grants.get(grant)?.kept.delete(request);
    },

    forget(grant) {
      grants.delete(grant);
    },
  };
}
