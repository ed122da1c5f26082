import { dayMs, dayOf } from '../../../foundation/telemetry/counted.ts';
import { compareTexts } from '../../../foundation/text.ts';
import type { RowDatabase } from '../row-database.ts';
import { removeInOrder } from '../small-steps.ts';
import { gatherCounts } from './count-rows.ts';

export type Metric = 'builds' | 'pulls' | 'mounted' | 'mirrors' | 'scans';

/** The scope of a count: one day (`yyyy-mm-dd`, UTC), one organisation, one architecture, several of them or everything. */
interface UsageQuery {
  readonly arch?: string | undefined;
  readonly day?: string | undefined;
  readonly org?: string | undefined;
}

export interface UsageStore {
  /** Adds one event of an organisation; of no organisation when `org` is undefined. */
  add(metric: Metric, day: string, org: string | undefined, arch?: string): void;
  /** Returns the number of all events that match, including those without an organisation. */
  count(metric: Metric, query: UsageQuery): Promise<number>;
  /** Events by organisation; those without one are left out. */
  countByOrg(metric: Metric, query: UsageQuery): Promise<Record<string, number>>;
  /** Returns all events of a day, and the organisations with the most of them; '' is for no organisation. */
  ofDay(metric: Metric, day: string, mostOrgs: number): Promise<DayUsage>;
  /** Writes the events added since the last call. Events that cannot be written are kept for the next call. */
  flush(): Promise<void>;
}

interface DayUsage {
  readonly count: number;
  readonly orgs: ReadonlyMap<string, number>;
}

interface OrgCount {
  readonly org: string;
  readonly count: number;
}

interface Waiting extends OrgCount {
  readonly metric: Metric;
  /** '' for events of all architectures: those of one are counted a second time, so that other sums need no row of each. */
  readonly arch: string;
  readonly day: string;
}

/**
 * Counters by metric, architecture, day and organisation. Additions are gathered in memory and written together, so that a pull
 * never waits for the disk. Queries include them at once.
 */
export function createUsageStore(database: RowDatabase): UsageStore {
  const insert = database.sql(
    `INSERT INTO usage (metric, arch, day, org, count) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (metric, arch, day, org) DO UPDATE SET count = usage.count + excluded.count`,
  );
  const select =
    'SELECT org, SUM(count) AS count FROM usage WHERE metric = @metric AND arch = @arch';
  // One statement for each form of the query, so that each has its index.
  const all = database.sql<OrgCount>(`${select} GROUP BY org`);
  const ofDay = database.sql<OrgCount>(`${select} AND day = @day GROUP BY org`);
  const ofOrg = database.sql<OrgCount>(`${select} AND org = @org GROUP BY org`);
  const ofBoth = database.sql<OrgCount>(`${select} AND day = @day AND org = @org GROUP BY org`);
  const sumOfDay = database
    .sql("SELECT COALESCE(SUM(count), 0) FROM usage WHERE metric = ? AND arch = '' AND day = ?")
    .pluck<number>();
  const topOfDay = database.sql<OrgCount>(
    "SELECT org, count FROM usage WHERE metric = ? AND arch = '' AND day = ? ORDER BY count DESC LIMIT ?",
  );
  const queryOf = ({ day, org }: UsageQuery) => {
    if (day !== undefined) return org === undefined ? ofDay : ofBoth;
    return org === undefined ? all : ofOrg;
  };
  const gathered = gatherCounts<Waiting>(database, {
    keyOf: ({ metric, arch, day, org }) => JSON.stringify([metric, arch, day, org]),
    merge: (one, other) => ({ ...one, count: one.count + other.count }),
    *write(counts) {
      for (const { metric, arch, day, org, count } of counts) {
        yield* insert.run(metric, arch, day, org, count);
      }
    },
  });
  /** Counts by organisation, including unwritten events. */
  const counts = async (
    metric: Metric,
    { day, org, arch = '' }: UsageQuery,
  ): Promise<Map<string, number>> => {
    const asked = {
      metric,
      arch,
      ...(day === undefined ? {} : { day }),
      ...(org === undefined ? {} : { org }),
    };
    return gathered.read(
      () => queryOf({ day, org }).all(asked),
      rows => {
        const found = new Map(rows.map(row => [row.org, row.count]));
        for (const entry of gathered.unwritten()) {
          if (entry.metric !== metric || entry.arch !== arch) continue;
          if (day !== undefined && entry.day !== day) continue;
          if (org !== undefined && entry.org !== org) continue;
          found.set(entry.org, (found.get(entry.org) ?? 0) + entry.count);
        }
        return found;
      },
    );
  };

  return {
    add(metric, day, org = '', arch) {
      const all = { metric, arch: '', day, org, count: 1 };
      gathered.add(all);
      if (arch !== undefined) gathered.add({ ...all, arch });
    },
    count: async (metric, where) =>
      (await counts(metric, where)).values().reduce((sum, one) => sum + one, 0),
    countByOrg: async (metric, where) =>
      Object.fromEntries((await counts(metric, where)).entries().filter(([org]) => org !== '')),
    ofDay: (metric, day, mostOrgs) =>
      gathered.read(
        function* () {
          const top = yield* topOfDay.all(metric, day, mostOrgs);
          return { top, sum: Number(yield* sumOfDay.get(metric, day)) };
        },
        ({ top, sum }) => {
          const orgs = new Map(top.map(row => [row.org, row.count]));
          let count = sum;
          for (const entry of gathered.unwritten()) {
            if (entry.metric !== metric || entry.arch !== '' || entry.day !== day) continue;
            count += entry.count;
            orgs.set(entry.org, (orgs.get(entry.org) ?? 0) + entry.count);
          }
          return { count, orgs };
        },
      ),
    flush: gathered.flush,
  };
}

/** What is pulled: one of the names that `pull/pull-counter.ts` makes. */
export type PullSubject = string & { readonly __brand: 'PullSubject' };

interface DayPulls {
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
const mostWaitingPulls = 50_000;
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
        if (gathered.size < mostWaitingPulls || gathered.get(keyOf(one))) gathered.add(one);
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
        written => unwritten(subject, from).reduce(joinedPulls, written),
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

function joinedPulls({ count, lastAt }: RecentPulls, other: Count): RecentPulls {
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
