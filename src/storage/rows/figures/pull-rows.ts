import { dayMs, dayOf } from '../../../foundation/telemetry/counted.ts';
import { compareTexts } from '../../../foundation/text/text-order.ts';
import type { RowDatabase } from '../driver/row-database.ts';
import { removeInOrder } from '../small-steps.ts';
import { gatherCounts } from './gathered-counts.ts';

/** What is pulled: one of the names that `pull/pull-subject.ts` makes. */
export type PullSubject = string & { readonly __brand: 'PullSubject' };

export interface DayPulls {
  /** `yyyy-mm-dd`, UTC. */
  readonly day: string;
  readonly count: number;
}

export interface RecentPulls {
  /** Pulls since the requested day. */
  readonly count: number;
  /** ms since the epoch; undefined when no pull is recorded. */
  readonly lastAt: number | undefined;
}

/** Pulls by subject and day, and the time of the last one. A pull never waits for the disk. */
export interface PullStore {
  /** Counts a pull of each subject. */
  note(subjects: Iterable<PullSubject>): void;
  /** Returns the days since a day on which there were pulls, including unwritten ones, in their order. */
  byDay(subject: PullSubject, from: string): Promise<DayPulls[]>;
  /** Returns the number of pulls since a day, and the last one of all, including unwritten ones. */
  recent(subject: PullSubject, from: string): Promise<RecentPulls>;
  /** Writes the pulls since the last call. Pulls that cannot be written are kept for the next call. */
  flush(): Promise<void>;
  /** Removes the pulls of all subjects from one to another, including unwritten ones. Pulls may be added meanwhile. */
  remove(from: PullSubject, to: PullSubject): Promise<void>;
  /** Removes the pulls before a day; returns how many rows. */
  purge(before: string, signal?: AbortSignal): Promise<number>;
}

/** A row: in the order of days for a purge, and in that of subjects for a removal. */
interface PullPlace {
  readonly subject: PullSubject;
  readonly day: string;
}

interface Count extends DayPulls {
  readonly subject: PullSubject;
  readonly lastAt: number;
}

// A disk that refuses writes for long must not fill the memory.
const mostWaiting = 50_000;
const beforeAll: PullPlace = { subject: '' as PullSubject, day: '' };

export function createPullStore(database: RowDatabase, now: () => number = Date.now): PullStore {
  const insert = database.sql(
    `INSERT INTO pulls (subject, day, count, last_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (subject, day) DO UPDATE SET
       count = pulls.count + excluded.count,
       last_at = CASE WHEN pulls.last_at > excluded.last_at THEN pulls.last_at ELSE excluded.last_at END`,
  );
  const byDay = database.sql<DayPulls>(
    'SELECT day, count FROM pulls WHERE subject = ? AND day >= ? ORDER BY day',
  );
  const sum = database
    .sql('SELECT COALESCE(SUM(count), 0) FROM pulls WHERE subject = ? AND day >= ?')
    .pluck<number>();
  const last = database
    .sql('SELECT last_at FROM pulls WHERE subject = ? ORDER BY day DESC LIMIT 1')
    .pluck<number>();
  const removal = (condition: string, order: string) =>
    database.sql<PullPlace>(
      `DELETE FROM pulls WHERE (subject, day) IN
       (SELECT subject, day FROM pulls WHERE ${condition} ORDER BY ${order} LIMIT @limit)
       RETURNING subject, day`,
    );
  const purge = removal('(day, subject) > (@day, @subject) AND day < @before', 'day, subject');
  const remove = removal('(subject, day) > (@subject, @day) AND subject <= @to', 'subject, day');
  const keyOf = ({ subject, day }: PullPlace) => `${day} ${subject}`;
  const gathered = gatherCounts<Count>(database, {
    keyOf,
    merge: (one, other) => ({
      ...one,
      count: one.count + other.count,
      lastAt: Math.max(one.lastAt, other.lastAt),
    }),
    *write(counts) {
      for (const { subject, day, count, lastAt } of counts) {
        yield* insert.run(subject, day, count, lastAt);
      }
    },
  });
  // Counts of earlier days wait only while the disk refuses writes.
  const unwritten = (subject: PullSubject, from: string): Count[] =>
    [dayOf(now() - dayMs), dayOf(now())]
      .filter(day => day >= from)
      .flatMap(day => gathered.get(keyOf({ subject, day })) ?? []);

  return {
    note(subjects) {
      const lastAt = now();
      const day = dayOf(lastAt);
      for (const subject of subjects) {
        const one = { subject, day, count: 1, lastAt };
        if (gathered.size < mostWaiting || gathered.get(keyOf(one))) gathered.add(one);
      }
    },

    byDay: (subject, from) =>
      gathered.read(
        () => byDay.all(subject, from),
        rows => {
          const days = new Map<string, number>();
          for (const { day, count } of [...rows, ...unwritten(subject, from)]) {
            days.set(day, (days.get(day) ?? 0) + count);
          }
          return [...days].map(([day, count]) => ({ day, count })).sort(byDate);
        },
      ),

    recent: (subject, from) =>
      gathered.read(
        function* () {
          const lastAt = yield* last.get(subject);
          return { count: Number(yield* sum.get(subject, from)), lastAt };
        },
        written => unwritten(subject, from).reduce(joined, written),
      ),

    flush: gathered.flush,

    async remove(from, to) {
      await gathered.flush();
      const first = { subject: from, day: '' };
      await removeInOrder(database, { statement: remove, values: { to }, first, order: bySubject });
    },

    purge: (before, signal) =>
      removeInOrder(
        database,
        { statement: purge, values: { before }, first: beforeAll, order: byDateAndSubject },
        signal,
      ),
  };
}

function joined({ count, lastAt }: RecentPulls, other: Count): RecentPulls {
  return { count: count + other.count, lastAt: Math.max(lastAt ?? other.lastAt, other.lastAt) };
}

// Subjects and days are ASCII: their order is that of the database.
function byDate(one: { readonly day: string }, other: { readonly day: string }): number {
  return compareTexts(one.day, other.day);
}

function bySubject(one: PullPlace, other: PullPlace): number {
  return compareTexts(one.subject, other.subject) || byDate(one, other);
}

function byDateAndSubject(one: PullPlace, other: PullPlace): number {
  return byDate(one, other) || compareTexts(one.subject, other.subject);
}
