import type { RowDatabase } from '../driver/row-database.ts';
import { gatherCounts } from '../figures/gathered-counts.ts';

export type Metric = 'builds' | 'pulls' | 'mounted' | 'mirrors';

/** The scope of a count: one day (`yyyy-mm-dd`, UTC), one organisation, one architecture, several of them or everything. */
export interface UsageQuery {
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

export interface DayUsage {
  readonly count: number;
  readonly orgs: ReadonlyMap<string, number>;
}

interface OrgCount {
  readonly org: string;
  readonly count: number;
}

interface Waiting extends OrgCount {
  readonly metric: StoredMetric;
  readonly day: string;
}

/** Events of one architecture are counted a second time, so that other sums need no row of every architecture. */
type StoredMetric = Metric | `${Metric} ${string}`;

function stored(metric: Metric, arch: string | undefined): StoredMetric {
  return arch === undefined ? metric : `${metric} ${arch}`;
}

/**
 * Counters by metric, day and organisation. Additions are gathered in memory and written together, so that a pull
 * never waits for the disk. Queries include them at once.
 */
export function createUsageStore(database: RowDatabase): UsageStore {
  const insert = database.sql(
    `INSERT INTO usage (metric, day, org, count) VALUES (?, ?, ?, ?)
     ON CONFLICT (metric, day, org) DO UPDATE SET count = usage.count + excluded.count`,
  );
  const select = 'SELECT org, SUM(count) AS count FROM usage WHERE metric = @metric';
  // One statement for each form of the query, so that each has its index.
  const all = database.sql<OrgCount>(`${select} GROUP BY org`);
  const ofDay = database.sql<OrgCount>(`${select} AND day = @day GROUP BY org`);
  const ofOrg = database.sql<OrgCount>(`${select} AND org = @org GROUP BY org`);
  const ofBoth = database.sql<OrgCount>(`${select} AND day = @day AND org = @org GROUP BY org`);
  const sumOfDay = database
    .sql('SELECT COALESCE(SUM(count), 0) FROM usage WHERE metric = ? AND day = ?')
    .pluck<number>();
  const topOfDay = database.sql<OrgCount>(
    'SELECT org, count FROM usage WHERE metric = ? AND day = ? ORDER BY count DESC LIMIT ?',
  );
  const queryOf = ({ day, org }: UsageQuery) => {
    if (day !== undefined) return org === undefined ? ofDay : ofBoth;
    return org === undefined ? all : ofOrg;
  };
  const gathered = gatherCounts<Waiting>(database, {
    keyOf: ({ metric, day, org }) => JSON.stringify([metric, day, org]),
    merge: (one, other) => ({ ...one, count: one.count + other.count }),
    *write(counts) {
      for (const { metric, day, org, count } of counts) {
        yield* insert.run(metric, day, org, count);
      }
    },
  });
  /** Counts by organisation, including unwritten events. */
  const counts = async (
    of: Metric,
    { day, org, arch }: UsageQuery,
  ): Promise<Map<string, number>> => {
    const metric = stored(of, arch);
    const asked = {
      metric,
      ...(day === undefined ? {} : { day }),
      ...(org === undefined ? {} : { org }),
    };
    return gathered.read(
      () => queryOf({ day, org }).all(asked),
      rows => {
        const found = new Map(rows.map(row => [row.org, row.count]));
        for (const entry of gathered.unwritten()) {
          if (entry.metric !== metric || (day !== undefined && entry.day !== day)) continue;
          if (org !== undefined && entry.org !== org) continue;
          found.set(entry.org, (found.get(entry.org) ?? 0) + entry.count);
        }
        return found;
      },
    );
  };

  return {
    add(metric, day, org = '', arch) {
      gathered.add({ metric, day, org, count: 1 });
      if (arch !== undefined) gathered.add({ metric: stored(metric, arch), day, org, count: 1 });
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
            if (entry.metric !== metric || entry.day !== day) continue;
            count += entry.count;
            orgs.set(entry.org, (orgs.get(entry.org) ?? 0) + entry.count);
          }
          return { count, orgs };
        },
      ),
    flush: gathered.flush,
  };
}
