import type { Call, RowDatabase } from '../driver/row-database.ts';

/** Counts in memory that are written together, so that counting never waits for the disk. */
export interface GatheredCounts<C> {
  /** Adds a count to the waiting one with the same key. */
  add(key: string, count: C): void;
  /** Returns the unwritten count with a key. */
  get(key: string): C | undefined;
  /** How many counts are in memory. A count that is being written and waits again is two. */
  readonly size: number;
  /** Writes the counts since the last call. Counts that cannot be written are kept for the next call. */
  flush(): Promise<void>;
}

/**
 * @param keyOf identifies the row of a count
 * @param merge returns the sum of two counts with the same key
 * @param write writes one count, in a transaction
 */
export function gatherCounts<C>(
  database: RowDatabase,
  keyOf: (count: C) => string,
  merge: (one: C, other: C) => C,
  write: (count: C) => Call<void>,
): GatheredCounts<C> {
  let waiting = new Map<string, C>();
  /** What is being written: unwritten until it is. */
  let taken: ReadonlyMap<string, C> = new Map();
  let flushing: Promise<void> | undefined;

  const add = (key: string, count: C): void => {
    const known = waiting.get(key);
    waiting.set(key, known === undefined ? count : merge(known, count));
  };
  const writeAll = async (): Promise<void> => {
    const counts = [...waiting.values()];
    taken = waiting;
    waiting = new Map();
    try {
      await database.commit(function* () {
        for (const count of counts) yield* write(count);
      });
    } catch (error) {
      for (const count of counts) add(keyOf(count), count);
      throw error;
    } finally {
      taken = new Map();
    }
  };

  return {
    add,
    get(key) {
      const [one, other] = [taken.get(key), waiting.get(key)];
      return one !== undefined && other !== undefined ? merge(one, other) : (one ?? other);
    },
    get size() {
      return waiting.size + taken.size;
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
