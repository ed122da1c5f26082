import { dayOf, type Tally, type TallyKind } from '../../../foundation/telemetry/counted.ts';
import type { RowDatabase } from '../driver/row-database.ts';
import { inSmallSteps } from '../small-steps.ts';
import { gatherCounts } from './gathered-counts.ts';

/**
 * Counts by kind, day (`yyyy-mm-dd`, UTC) and name. They are gathered in memory and written together. A kind has a
 * bounded number of names a day: the others share the name {@link otherNames}.
 */
export interface DayCountStore extends Tally {
  /** Returns the counts of a day, the largest first, including unwritten ones: a few more names than {@link mostNames} at most. */
  ofDay(kind: TallyKind, day: string): Promise<ReadonlyMap<string, number>>;
  /** Writes the counts since the last call. Counts that cannot be written are kept for the next call. */
  flush(): Promise<void>;
  /** Removes the counts of a kind before a day; returns how many. */
  purge(kind: TallyKind, before: string, signal?: AbortSignal): Promise<number>;
}

export const otherNames = '(others)';
/** The most names that a kind has on a day. */
export const mostNames = 1000;
const longestName = 200;

interface NameCount {
  readonly name: string;
  readonly count: number;
}

interface Waiting extends NameCount {
  readonly kind: TallyKind;
  readonly day: string;
}

export function createDayCountStore(
  database: RowDatabase,
  now: () => number = Date.now,
): DayCountStore {
  const insert = database.sql(
    `INSERT INTO day_counts (kind, day, name, count) VALUES (?, ?, ?, ?)
     ON CONFLICT (kind, day, name) DO UPDATE SET count = day_counts.count + excluded.count`,
  );
  // Sorted below: SQLite takes as long to sort long names as to read them.
  const ofDay = database.sql<NameCount>(
    'SELECT name, count FROM day_counts WHERE kind = ? AND day = ? LIMIT ?',
  );
  const names = database
    .sql('SELECT name FROM day_counts WHERE kind = ? AND day = ? LIMIT ?')
    .pluck<string>();
  const purge = database.sql(
    `DELETE FROM day_counts WHERE (kind, day, name) IN
     (SELECT kind, day, name FROM day_counts WHERE kind = ? AND day < ? LIMIT ?)`,
  );
  /** The names of today by kind, as far as this process counted them: a flood of new names must not fill the memory. */
  const known = new Map<TallyKind, { readonly day: string; readonly names: Set<string> }>();
  const gathered = gatherCounts<Waiting>(database, {
    keyOf: ({ kind, day, name }) => `${kind}\n${day}\n${name}`,
    merge: (one, other) => ({ ...one, count: one.count + other.count }),
    *write(counts) {
      const rows = new Map<string, Set<string>>();
      for (const { kind, day, name, count } of counts) {
        const key = `${kind}\n${day}`;
        const present = rows.get(key) ?? new Set(yield* names.all(kind, day, mostNames));
        rows.set(key, present);
        // A flood of new names must not fill the disk. The name of the others is one of the rows, too.
        const isKept = present.has(name) || present.size < mostNames;
        if (isKept) present.add(name);
        yield* insert.run(kind, day, isKept ? name : otherNames, count);
      }
    },
  });

  const knownNames = (kind: TallyKind, day: string): Set<string> => {
    let entry = known.get(kind);
    if (entry?.day !== day) {
      entry = { day, names: new Set() };
      known.set(kind, entry);
    }
    return entry.names;
  };

  return {
    add(kind, name, count = 1) {
      const day = dayOf(now());
      const all = knownNames(kind, day);
      const short = name.slice(0, longestName);
      const isKnown = all.has(short) || all.size < mostNames;
      if (isKnown) all.add(short);
      gathered.add({ kind, day, name: isKnown ? short : otherNames, count });
    },

    ofDay: (kind, day) =>
      gathered.read(
        () => ofDay.all(kind, day, 2 * mostNames),
        rows => {
          const written = rows.sort((one, other) => other.count - one.count);
          const found = new Map(written.map(({ name, count }) => [name, count]));
          let isSorted = true;
          for (const entry of gathered.unwritten()) {
            if (entry.kind !== kind || entry.day !== day) continue;
            found.set(entry.name, (found.get(entry.name) ?? 0) + entry.count);
            isSorted = false;
          }
          return isSorted ? found : new Map([...found].sort(([, one], [, other]) => other - one));
        },
      ),

    flush: gathered.flush,

    purge: (kind, before, signal) =>
      inSmallSteps(database, rows => purge.changes(kind, before, rows), signal),
  };
}
