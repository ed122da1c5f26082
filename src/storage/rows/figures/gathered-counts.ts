import type { Database } from '../database.ts';

/** Counts in memory that are written together, so that counting never waits for the disk. */
export interface GatheredCounts<C> {
  /** Adds a count to the waiting one with the same key. */
  add(key: string, count: C): void;
  /** Returns the waiting count with a key. */
  get(key: string): C | undefined;
  readonly size: number;
  /** Writes the counts since the last call. Counts that cannot be written are kept for the next call. */
  flush(): Promise<void>;
}

/**
 * @param keyOf identifies the row of a count
 * @param merge returns the sum of two counts with the same key
 * @param write writes one count; runs in a transaction
 */
export function gatherCounts<C>(
  database: Database,
  keyOf: (count: C) => string,
  merge: (one: C, other: C) => C,
  write: (count: C) => void,
): GatheredCounts<C> {
  const waiting = new Map<string, C>();
  let flushing: Promise<void> | undefined;

  const add = (key: string, count: C): void => {
    const known = waiting.get(key);
    waiting.set(key, known === undefined ? count : merge(known, count));
  };
  const writeAll = async (): Promise<void> => {
    let taken: C[] = [];
    try {
      await database.commit(() => {
        taken = [...waiting.values()];
        waiting.clear();
        for (const count of taken) write(count);
      });
    } catch (error) {
      for (const count of taken) add(keyOf(count), count);
      throw error;
    }
  };

  return {
    add,
    get: key => waiting.get(key),
    get size() {
      return waiting.size;
    },
    flush() {
      if (waiting.size === 0) return Promise.resolve();
      flushing ??= writeAll().finally(() => {
        flushing = undefined;
      });
      return flushing;
    },
  };
}
