import {
  bucketOf,
  dayOf,
  type Tally,
  type TallyKind,
  type TallyLabels,
} from '../../../foundation/telemetry/counted.ts';
import type { RowDatabase } from '../driver/row-database.ts';
import { inSmallSteps } from '../small-steps.ts';
import { gatherCounts } from './gathered-counts.ts';

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
  /** Writes the counts since the last call. Counts that cannot be written are kept for the next call. */
  flush(): Promise<void>;
  /** Removes the counts of a kind before a day; returns how many. */
  purge(kind: TallyKind, before: string, signal?: AbortSignal): Promise<number>;
}

export const otherNames = '(others)';
/** The most counts that a kind has on a day. */
export const mostNames = 1000;
const longestName = 200;

interface StoredCount {
  /** JSON of an object. */
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

  return {
    add: (kind, labels, count = 1) => add(kind, labels, count),

    observe: (kind, labels, ms) => add(kind, { ...labels, bucket: String(bucketOf(ms)) }, 1),

    ofDay: (kind, day) =>
      gathered.read(
        () => ofDay.all(kind, day, 2 * mostNames),
        rows => {
          const found = new Map(rows.map(({ labels, count }) => [labels, count]));
          for (const entry of gathered.unwritten()) {
            if (entry.kind !== kind || entry.day !== day) continue;
            found.set(entry.labels, (found.get(entry.labels) ?? 0) + entry.count);
          }
          return [...found]
            .sort(([, one], [, other]) => other - one)
            .map(([labels, count]) => ({ labels: JSON.parse(labels), count }));
        },
      ),

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
