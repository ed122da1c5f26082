import { setTimeout as sleep } from 'node:timers/promises';
import type { Call, RowDatabase } from '../driver/row-database.ts';

/** What is counted, and how it is written. */
export interface CountKind<C> {
  /** Identifies the row of a count. */
  keyOf(count: C): string;
  /** Returns the sum of two counts with the same key. */
  merge(one: C, other: C): C;
  /** Writes counts, in a transaction. It gets as many counts as fit into a short one. */
  write(counts: Iterable<C>): Call<void>;
}

/** Counts in memory that are written together, so that counting never waits for the disk. */
export interface GatheredCounts<C> {
  /** Adds a count to the waiting one with the same key. */
  add(count: C): void;
  /** Returns the unwritten count with a key. */
  get(key: string): C | undefined;
  /** Returns the unwritten counts. A count that is being written and waits again comes twice. */
  unwritten(): Generator<C, void>;
  /** How many counts {@link GatheredCounts.unwritten} returns. */
  readonly size: number;
  /**
   * Reads rows, and joins them with the unwritten counts. No count is missing or doubled because it is written
   * meanwhile.
   *
   * @param join is called once; what it sees unwritten is not in the rows
   */
  read<T, R>(call: () => Call<T>, join: (rows: T) => R): Promise<R>;
  /** Writes the counts since the last call. Counts that cannot be written are kept for the next call. */
  flush(): Promise<void>;
}

// A transaction holds the event loop, and SQLite's only write lock, for about this time.
const stepMs = 8;
// Across the network, a transaction with fewer rows costs more than they do.
const fewestRows = 64;
const stepsBetweenFlushes = 32;
// A read that takes longer than the pauses between transactions ends all the same.
const mostReads = 20;

export function gatherCounts<C>(database: RowDatabase, kind: CountKind<C>): GatheredCounts<C> {
  const { keyOf, merge, write } = kind;
  let waiting = new Map<string, C>();
  /** What is being written, without what is written already. */
  let taken = new Map<string, C>();
  /** Resolves when the last flush has ended. */
  let flushed = Promise.resolve();
  /** Resolves when the last transaction has ended. */
  let ended: Promise<unknown> = Promise.resolve();
  /** Odd from the last statement of a transaction until its end: its rows may or may not be seen then. */
  let version = 0;

  const add = (count: C): void => {
    const key = keyOf(count);
    const known = waiting.get(key);
    waiting.set(key, known === undefined ? count : merge(known, count));
  };
  /** Writes the first of the counts in one transaction; returns how many. */
  const writeSome = async (counts: readonly C[]): Promise<number> => {
    try {
      const written = await database.commit(function* () {
        const part = firstOf(counts);
        yield* write(part);
        if (version % 2 === 0) version += 1;
        return part.count;
      });
      for (const count of counts.slice(0, written)) taken.delete(keyOf(count));
      return written;
    } finally {
      if (version % 2 === 1) version += 1;
    }
  };
  const writeAll = async (): Promise<void> => {
    if (waiting.size === 0) return;
    taken = waiting;
    waiting = new Map();
    let counts = [...taken.values()];
    try {
      for (let steps = 1; ; steps += 1) {
        const began = performance.now();
        const step = writeSome(counts);
        ended = step.catch(() => {});
        counts = counts.slice(await step);
        if (counts.length === 0) return;
        if (steps % stepsBetweenFlushes === 0) await database.settle();
        await sleep(Math.min(stepMs, Math.max(1, performance.now() - began)));
      }
    } finally {
      // Empty, unless an error has ended the loop.
      const left = taken;
      taken = new Map();
      for (const count of left.values()) add(count);
    }
  };

  return {
    add,
    get(key) {
      const [one, other] = [taken.get(key), waiting.get(key)];
      return one !== undefined && other !== undefined ? merge(one, other) : (one ?? other);
    },
    *unwritten() {
      yield* taken.values();
      yield* waiting.values();
    },
    get size() {
      return waiting.size + taken.size;
    },
    async read(call, join) {
      for (let reads = 1; ; reads += 1) {
        if (version % 2 === 1) await ended;
        const before = version;
        const rows = await database.read(call());
        if (version === before || reads === mostReads) return join(rows);
      }
    },
    flush() {
      const done = flushed.then(writeAll);
      flushed = done.catch(() => {});
      return done;
    },
  };
}

/** Returns the first counts, up to those that were reached when the time of a step was over. */
function firstOf<C>(counts: readonly C[]): Iterable<C> & { readonly count: number } {
  let count = 0;
  return {
    get count() {
      return count;
    },
    *[Symbol.iterator]() {
      const began = performance.now();
      for (const one of counts) {
        if (count >= fewestRows && performance.now() - began >= stepMs) return;
        yield one;
        count += 1;
      }
    },
  };
}
