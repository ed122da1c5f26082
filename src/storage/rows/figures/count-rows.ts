import { setTimeout as sleep } from 'node:timers/promises';
import {
  bucketOf,
  dayOf,
  type Tally,
  type TallyKind,
  type TallyLabels,
} from '../../../foundation/telemetry/counted.ts';
import type { Call, RowDatabase } from '../row-database.ts';
import { inSmallSteps } from '../small-steps.ts';

/** How often something with these labels was counted. */
export interface LabelCount<K extends TallyKind> {
  readonly labels: TallyLabels[K];
  readonly count: number;
}

/**
 * Counts by kind, day (`yyyy-mm-dd`, UTC) and labels. They are gathered in memory and written together. A kind has a
 * bounded number of counts a day: all others share the one whose labels are {@link otherNames}.
 */
export interface DayCountStore extends Tally {
  /** Returns the counts of a day, the largest first, including unwritten ones: a few more than {@link mostNames} at most. */
  ofDay<K extends TallyKind>(kind: K, day: string): Promise<LabelCount<K>[]>;
  /** Does the same with labels as they are stored: who adds up many days reads only those that are shown. */
  storedOfDay(kind: TallyKind, day: string): Promise<StoredCount[]>;
  /** Writes the counts since the last call. Counts that cannot be written are kept for the next call. */
  flush(): Promise<void>;
  /** Removes the counts of a kind before a day; returns how many. */
  purge(kind: TallyKind, before: string, signal?: AbortSignal): Promise<number>;
}

export const otherNames = '(others)';
/** The most counts that a kind has on a day. */
export const mostNames = 1000;
const longestName = 200;

/** A count whose labels are JSON of an object. */
export interface StoredCount {
  readonly labels: string;
  readonly count: number;
}

interface Waiting extends StoredCount {
  readonly kind: TallyKind;
  readonly day: string;
}

export function createDayCountStore(
  database: RowDatabase,
  now: () => number = Date.now,
): DayCountStore {
  const insert = database.sql(
    `INSERT INTO day_counts (kind, day, labels, count) VALUES (?, ?, ?, ?)
     ON CONFLICT (kind, day, labels) DO UPDATE SET count = day_counts.count + excluded.count`,
  );
  // Sorted below: SQLite takes as long to sort long labels as to read them.
  const ofDay = database.sql<StoredCount>(
    'SELECT labels, count FROM day_counts WHERE kind = ? AND day = ? LIMIT ?',
  );
  const stored = database
    .sql('SELECT labels FROM day_counts WHERE kind = ? AND day = ? LIMIT ?')
    .pluck<string>();
  const purge = database.sql(
    `DELETE FROM day_counts WHERE (kind, day, labels) IN
     (SELECT kind, day, labels FROM day_counts WHERE kind = ? AND day < ? LIMIT ?)`,
  );
  /** The labels of today by kind, as far as this process counted them: a flood of new ones must not fill the memory. */
  const known = new Map<TallyKind, { readonly day: string; readonly labels: Set<string> }>();
  const gathered = gatherCounts<Waiting>(database, {
    keyOf: ({ kind, day, labels }) => `${kind}\n${day}\n${labels}`,
    merge: (one, other) => ({ ...one, count: one.count + other.count }),
    *write(counts) {
      const rows = new Map<string, Set<string>>();
      for (const { kind, day, labels, count } of counts) {
        const key = `${kind}\n${day}`;
        const present = rows.get(key) ?? new Set(yield* stored.all(kind, day, mostNames));
        rows.set(key, present);
        // A flood of new labels must not fill the disk. Those of the others are one of the rows, too.
        const isKept = present.has(labels) || present.size < mostNames;
        if (isKept) present.add(labels);
        yield* insert.run(kind, day, isKept ? labels : othersOf(JSON.parse(labels)), count);
      }
    },
  });

  const knownLabels = (kind: TallyKind, day: string): Set<string> => {
    let entry = known.get(kind);
    if (entry?.day !== day) {
      entry = { day, labels: new Set() };
      known.set(kind, entry);
    }
    return entry.labels;
  };
  const add = <K extends TallyKind>(kind: K, given: TallyLabels[K], count: number): void => {
    const day = dayOf(now());
    const all = knownLabels(kind, day);
    const labels = textOf(given, value => value.slice(0, longestName));
    const isKnown = all.has(labels) || all.size < mostNames;
    if (isKnown) all.add(labels);
    gathered.add({ kind, day, labels: isKnown ? labels : othersOf(given), count });
  };

  const withUnwritten = (rows: StoredCount[], kind: TallyKind, day: string): StoredCount[] => {
    const more = [...gathered.unwritten()].filter(one => one.kind === kind && one.day === day);
    // Most days have ended, and a map of all their labels takes as long as reading them.
    if (more.length === 0) return rows;
    const counts = new Map(rows.map(({ labels, count }) => [labels, count]));
    for (const { labels, count } of more) counts.set(labels, (counts.get(labels) ?? 0) + count);
    return Array.from(counts, ([labels, count]) => ({ labels, count }));
  };

  const storedOfDay = (kind: TallyKind, day: string) =>
    gathered.read(
      () => ofDay.all(kind, day, 2 * mostNames),
      rows => withUnwritten(rows, kind, day).sort((one, other) => other.count - one.count),
    );

  return {
    add: (kind, labels, count = 1) => add(kind, labels, count),

    observe: (kind, labels, ms) => add(kind, { ...labels, bucket: String(bucketOf(ms)) }, 1),

    storedOfDay,

    ofDay: async (kind, day) =>
      (await storedOfDay(kind, day)).map(({ labels, count }) => ({
        labels: JSON.parse(labels),
        count,
      })),

    flush: gathered.flush,

    purge: (kind, before, signal) =>
      inSmallSteps(database, rows => purge.changes(kind, before, rows), signal),
  };
}

type Labels = Readonly<Record<string, string>>;

function textOf(labels: Labels, change: (value: string) => string): string {
  const entries = Object.entries(labels).map(([name, value]) => [name, change(value)]);
  return JSON.stringify(Object.fromEntries(entries));
}

function othersOf(labels: Labels): string {
  return textOf(labels, () => otherNames);
}

/** The queue of builds in one hour. */
export interface QueueHour {
  /** Begin of the hour, ms since the epoch. */
  readonly at: number;
  readonly samples: number;
  /** Samples in which builds waited. */
  readonly queued: number;
  readonly mostRunning: number;
  readonly mostWaiting: number;
}

/** Samples of the queue of builds, by hour. They are gathered in memory and written together. */
export interface QueueStore {
  /** Adds a sample. */
  note(at: number, load: { readonly running: number; readonly waiting: number }): void;
  /** Returns the hours from a moment to before another one, with unwritten samples. */
  between(from: number, to: number): Promise<QueueHour[]>;
  /** Writes the samples since the last call. Samples that cannot be written are kept for the next call. */
  flush(): Promise<void>;
  /** Removes the hours before a moment; returns how many. */
  purge(before: number, signal?: AbortSignal): Promise<number>;
}

const hourMs = 3_600_000;

export function createQueueStore(database: RowDatabase): QueueStore {
  const add = database.sql(
    `INSERT INTO queue_hours (at, samples, queued, most_running, most_waiting)
     VALUES (@at, @samples, @queued, @mostRunning, @mostWaiting)
     ON CONFLICT (at) DO UPDATE SET samples = queue_hours.samples + excluded.samples,
       queued = queue_hours.queued + excluded.queued,
       most_running = CASE WHEN queue_hours.most_running > excluded.most_running
         THEN queue_hours.most_running ELSE excluded.most_running END,
       most_waiting = CASE WHEN queue_hours.most_waiting > excluded.most_waiting
         THEN queue_hours.most_waiting ELSE excluded.most_waiting END`,
  );
  const between = database.sql<QueueHour>(
    `SELECT at, samples, queued, most_running AS mostRunning, most_waiting AS mostWaiting
     FROM queue_hours WHERE at >= ? AND at < ? ORDER BY at`,
  );
  const purge = database.sql(
    'DELETE FROM queue_hours WHERE at IN (SELECT at FROM queue_hours WHERE at < ? LIMIT ?)',
  );
  const gathered = gatherCounts<QueueHour>(database, {
    keyOf: ({ at }) => String(at),
    merge: joinedHours,
    *write(hours) {
      for (const hour of hours) yield* add.run({ ...hour });
    },
  });

  return {
    note(at, { running, waiting }) {
      const most = { mostRunning: running, mostWaiting: waiting };
      gathered.add({ at: at - (at % hourMs), samples: 1, queued: waiting > 0 ? 1 : 0, ...most });
    },

    between: (from, to) =>
      gathered.read(
        () => between.all(from, to),
        rows => {
          const hours = new Map(rows.map(hour => [hour.at, hour]));
          for (const hour of gathered.unwritten()) {
            if (hour.at < from || hour.at >= to) continue;
            const known = hours.get(hour.at);
            hours.set(hour.at, known ? joinedHours(known, hour) : hour);
          }
          return [...hours.values()].sort((one, other) => one.at - other.at);
        },
      ),

    flush: gathered.flush,

    purge: (before, signal) => inSmallSteps(database, rows => purge.changes(before, rows), signal),
  };
}

function joinedHours(one: QueueHour, other: QueueHour): QueueHour {
  return {
    at: one.at,
    samples: one.samples + other.samples,
    queued: one.queued + other.queued,
    mostRunning: Math.max(one.mostRunning, other.mostRunning),
    mostWaiting: Math.max(one.mostWaiting, other.mostWaiting),
  };
}

/** What is counted, and how it is written. */
interface CountKind<C> {
  /** Identifies the row of a count. */
  keyOf(count: C): string;
  /** Returns the sum of two counts with the same key. */
  merge(one: C, other: C): C;
  /** Writes counts, in a transaction. It gets as many counts as fit into a short one. */
  write(counts: Iterable<C>): Call<void>;
}

/** Counts in memory that are written together, so that counting never waits for the disk. */
interface GatheredCounts<C> {
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
