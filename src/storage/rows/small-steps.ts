import { setTimeout as sleep } from 'node:timers/promises';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { Call, Change, RowDatabase, Statement, Value } from './row-database.ts';

// A step holds the event loop, and SQLite's only write lock, for about this time.
const stepMs = 8;
// Changing a row takes 5 microseconds, up to 100 of processor time when its pages come from the disk, and up to 2
// milliseconds in all when the disk is busy.
const rowsAtOnce = 64;
// Where a statement holds the event loop: its pages may all come from the disk, after many that were in memory.
const rowsAtOnceInThread = 32;
const fewestChanges = 8;
const fewestRows = 32;
// Rows that are read from the disk take ten times as long as those before them, which were in memory.
const mostRows = 1024;
// The log of the database is copied into its file after a flush. Without flushes it would grow until the work ends.
const stepsBetweenFlushes = 32;

/**
 * Changes many rows a few at a time. Each step is a transaction of some milliseconds; as long a rest follows, in which
 * requests are answered and other processes write.
 *
 * @param step changes up to so many rows and returns how many it found; fewer than it could have taken means that
 *   none are left. Called more than once in a transaction
 * @param signal ends the work between two steps; what is done stays done
 * @returns the sum of what the steps returned
 * @throws the reason of the signal, and what a step throws; a `Fault` (503) when the database stays locked
 */
export function inSmallSteps(
  database: Pick<RowDatabase, 'commit' | 'settle' | 'isInThread'>,
  step: (rows: number) => Call<number>,
  signal?: AbortSignal,
): Promise<number> {
  const counted = function* (_from: undefined, rows: number) {
    return { found: yield* step(rows), place: undefined };
  };
  return inOrder(database, undefined, counted, signal);
}

/** What a step in an order found: how many rows, and the place of the last one. */
interface OrderedStep<Place> {
  readonly found: number;
  readonly place: Place;
}

/**
 * Does the same in an order of the rows: each step is given the place that the one before it reached. It does not pass
 * again the rows that were removed before. PostgreSQL keeps them for as long as somebody, such as a backup, reads an
 * older state.
 *
 * @param first a place before all rows
 */
export async function inOrder<Place>(
  database: Pick<RowDatabase, 'commit' | 'settle' | 'isInThread'>,
  first: Place,
  step: (from: Place, rows: number) => Call<OrderedStep<Place>>,
  signal?: AbortSignal,
): Promise<number> {
  let sum = 0;
  let from = first;
  const { isInThread = false } = database;
  // Across the network, a statement with fewer rows costs more than they do.
  let allowed = isInThread ? fewestChanges : rowsAtOnce;
  for (let steps = 1; ; steps += 1) {
    signal?.throwIfAborted();
    const { found, place, rows, isDone, tookMs } = await database.commit(function* () {
      const began = performance.now();
      let found = 0;
      let place = from;
      let rows = allowed;
      for (let last = began; ; ) {
        const reached = yield* step(place, rows);
        found += reached.found;
        place = reached.place;
        const now = performance.now();
        const isDone = reached.found < rows;
        if (isInThread) rows = nextSize(rows, now - last, fewestChanges, rowsAtOnceInThread);
        last = now;
        const tookMs = now - began;
        if (isDone || tookMs >= stepMs) return { found, place, rows, isDone, tookMs };
      }
    });
    sum += found;
    from = place;
    allowed = rows;
    if (isDone) return sum;
    if (steps % stepsBetweenFlushes === 0) await database.settle();
    await sleep(Math.max(1, tookMs), undefined, signal ? { signal } : {});
  }
}

/** How {@link removeInOrder} removes rows. */
interface OrderedRemoval<Place> {
  /**
   * Removes up to `@limit` rows, the first ones after a place, and returns the places of the removed. Its values are
   * the columns of a place and those of the removal.
   */
  readonly statement: Statement<Place>;
  readonly values: Readonly<Record<string, Value>>;
  /** A place before all rows. */
  readonly first: Place;
  /** Orders places as the statement does. */
  readonly order: (one: Place, other: Place) => number;
}

/** Removes rows in an order, as {@link inOrder} does; returns how many. */
export function removeInOrder<Place>(
  database: Pick<RowDatabase, 'commit' | 'settle' | 'isInThread'>,
  { statement, values, first, order }: OrderedRemoval<Place>,
  signal?: AbortSignal,
): Promise<number> {
  const later = (one: Place, other: Place) => (order(one, other) < 0 ? other : one);
  const step = function* (from: Place, limit: number) {
    // A statement returns what it removed in no order.
    const removed = yield* statement.all({ ...values, ...from, limit });
    return { found: removed.length, place: removed.reduce(later, from) };
  };
  return inOrder(database, first, step, signal);
}

/**
 * Returns rows one after the other. About every 8 ms, the time that the reader takes included, the event loop gets a
 * rest as long as that.
 *
 * @param read returns up to so many of the rows that follow those it has returned; fewer are the last ones
 * @throws the reason of the signal, and what `read` throws
 */
export async function* eachRow<Row>(
  read: (rows: number) => Promise<readonly Row[]>,
  signal?: AbortSignal,
): AsyncGenerator<Row> {
  let rows = fewestRows;
  for (let began = performance.now(); ; ) {
    signal?.throwIfAborted();
    // Whoever reads may have used up this turn of the event loop before.
    await pauseTurn();
    const beforeRead = performance.now();
    const allowed = rows;
    const page = await read(allowed);
    rows = nextSize(allowed, performance.now() - beforeRead, fewestRows, mostRows);
    for (const row of page) {
      yield row;
      const tookMs = performance.now() - began;
      if (tookMs < stepMs) continue;
      await sleep(Math.min(tookMs, stepMs), undefined, signal ? { signal } : {});
      began = performance.now();
    }
    if (page.length < allowed) return;
  }
}

function nextSize(rows: number, tookMs: number, fewest: number, most: number): number {
  const fitting = Math.floor((rows * stepMs) / Math.max(tookMs, 0.1));
  return Math.max(fewest, Math.min(fitting, rows * 2, most));
}

/** Changes that readers do not wait for. One that cannot be written is dropped. */
interface NotedChanges {
  note(change: Change<void>): void;
  /** Resolves when all that were noted before have ended: a purge does not overlook a use. */
  ended(): Promise<void>;
}

export function createNotedChanges(database: Pick<RowDatabase, 'commit'>): NotedChanges {
  const running = new Set<Promise<void>>();
  return {
    note(change) {
      const end = database
        .commit(change)
        .catch(() => {})
        .finally(() => running.delete(end));
      running.add(end);
    },
    async ended() {
      await Promise.all(running);
    },
  };
}
