import type { LRUCache } from 'lru-cache';
import { boundedCache } from '../../foundation/bounded-cache.ts';

/**
 * What a platform answered, for one grant each: nobody is served what somebody else was told. Equal
 * questions at once are asked once.
 */
export interface GrantCache {
  /** What is kept, or else what `load` brings, kept for so long; a failure is not kept. */
  get<T>(grant: string, question: string, lifeMs: number, load: () => Promise<T>): Promise<T>;
  put(grant: string, question: string, lifeMs: number, answer: unknown): void;
  /** Drops one answer. */
  drop(grant: string, question: string): void;
  /** Drops all that is known of a grant, also what was asked before and is answered later. */
  forget(grant: string): void;
}

interface Kept {
  readonly answer: unknown;
  readonly until: number;
}

interface Known {
  readonly kept: LRUCache<string, Kept>;
  readonly underWay: Map<string, Promise<unknown>>;
}

const maxGrants = 10_000;
const maxAnswers = 500;

/** @param now ms on a scale that no change of the wall clock moves */
export function createGrantCache(now: () => number = () => performance.now()): GrantCache {
  const grants = boundedCache<string, Known>(maxGrants);

  const knownOf = (grant: string): Known => {
    const known = grants.get(grant) ?? {
      kept: boundedCache<string, Kept>(maxAnswers),
      underWay: new Map(),
    };
    grants.set(grant, known);
    return known;
  };

  return {
    get<T>(grant: string, question: string, lifeMs: number, load: () => Promise<T>): Promise<T> {
      // An answer goes where its question began: after `forget` that is nowhere.
      const { kept, underWay } = knownOf(grant);
      const found = kept.get(question);
      if (found && now() < found.until) return Promise.resolve(found.answer as T);
      const running = underWay.get(question);
      if (running) return running as Promise<T>;
      const asked = load()
        .then(answer => {
          kept.set(question, { answer, until: now() + lifeMs });
          return answer;
        })
        .finally(() => underWay.delete(question));
      underWay.set(question, asked);
      return asked;
    },

    put(grant, question, lifeMs, answer) {
      knownOf(grant).kept.set(question, { answer, until: now() + lifeMs });
    },

    drop(grant, question) {
      grants.get(grant)?.kept.delete(question);
    },

    forget(grant) {
      grants.delete(grant);
    },
  };
}
