import type { LRUCache } from 'lru-cache';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';

/**
 * Caches the answers of platforms for each grant: no caller receives an answer meant for another. Simultaneous equal
 * questions are sent once.
 */
export interface GrantCache {
  /** Returns the cached value, or loads it and keeps it for `lifeMs`. A failure is not kept. */
  get<T>(grant: string, question: string, lifeMs: number, load: () => Promise<T>): Promise<T>;
  put(grant: string, question: string, lifeMs: number, answer: unknown): void;
  /** Drops one answer. */
  drop(grant: string, question: string): void;
  /** Drops all answers for a grant, including answers to questions that are still under way. */
  forget(grant: string): void;
}

interface Kept {
  readonly answer: unknown;
  readonly until: number;
}

interface Known {
  readonly kept: LRUCache<string, Kept>;
  readonly questions: SingleFlight<unknown>;
}

const maxGrants = 10_000;
const maxAnswers = 500;

/** @param now ms on a scale that changes of the wall clock do not affect */
export function createGrantCache(now: () => number = () => performance.now()): GrantCache {
  const grants = boundedCache<string, Known>(maxGrants);

  const knownOf = (grant: string): Known => {
    const known = grants.get(grant) ?? {
      kept: boundedCache<string, Kept>(maxAnswers),
      questions: new SingleFlight(),
    };
    grants.set(grant, known);
    return known;
  };

  return {
    get<T>(grant: string, question: string, lifeMs: number, load: () => Promise<T>): Promise<T> {
      // An answer goes to the entry where its question began; after `forget` that entry is gone.
      const { kept, questions } = knownOf(grant);
      const found = kept.get(question);
      if (found && now() < found.until) return Promise.resolve(found.answer as T);
      const ask = async () => {
        const answer = await load();
        kept.set(question, { answer, until: now() + lifeMs });
        return answer;
      };
      return questions.run(ask, { key: question }) as Promise<T>;
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
