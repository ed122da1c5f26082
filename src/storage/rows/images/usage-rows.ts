import type { RowDatabase } from '../driver/row-database.ts';

export type Metric = 'builds' | 'pulls' | 'mounted';

/** The scope of a count: one day (`yyyy-mm-dd`, UTC), one organisation, both or everything. */
export interface UsageQuery {
  readonly day?: string | undefined;
  readonly org?: string | undefined;
}

export interface UsageStore {
  /** Adds one event of an organisation; of no organisation when `org` is undefined. */
  add(metric: Metric, day: string, org: string | undefined): void;
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

interface Waiting {
  readonly metric: Metric;
  readonly day: string;
  readonly org: string;
  count: number;
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
  let waiting = new Map<string, Waiting>();
  /** What is being written. Queries count it until it is. */
  let taken: ReadonlyMap<string, Waiting> = new Map();
  const unwritten = () => [...taken.values(), ...waiting.values()];
  let flushing: Promise<void> | undefined;

  const add = (metric: Metric, day: string, org: string, count: number): void => {
    const key = JSON.stringify([metric, day, org]);
    const entry = waiting.get(key);
    if (entry) entry.count += count;
    else waiting.set(key, { metric, day, org, count });
  };
  const write = async (): Promise<void> => {
    const written = [...waiting.values()];
    taken = waiting;
    waiting = new Map();
    try {
      await database.commit(function* () {
        for (const { metric, day, org, count } of written) {
          yield* insert.run(metric, day, org, count);
        }
      });
    } catch (error) {
      for (const { metric, day, org, count } of written) add(metric, day, org, count);
      throw error;
    } finally {
      taken = new Map();
    }
  };
  /** Counts by organisation, including unwritten events. */
  const counts = async (metric: Metric, { day, org }: UsageQuery): Promise<Map<string, number>> => {
    const asked = {
      metric,
      ...(day === undefined ? {} : { day }),
      ...(org === undefined ? {} : { org }),
    };
    const rows = await database.read(queryOf({ day, org }).all(asked));
    const found = new Map(rows.map(row => [row.org, row.count]));
    for (const entry of unwritten()) {
      if (entry.metric !== metric || (day !== undefined && entry.day !== day)) continue;
      if (org !== undefined && entry.org !== org) continue;
      found.set(entry.org, (found.get(entry.org) ?? 0) + entry.count);
    }
    return found;
  };

  return {
    add: (metric, day, org = '') => add(metric, day, org, 1),
    count: async (metric, where) =>
      (await counts(metric, where)).values().reduce((sum, one) => sum + one, 0),
    countByOrg: async (metric, where) =>
      Object.fromEntries((await counts(metric, where)).entries().filter(([org]) => org !== '')),
    async ofDay(metric, day, mostOrgs) {
      const rows = await database.read(topOfDay.all(metric, day, mostOrgs));
      const orgs = new Map(rows.map(row => [row.org, row.count]));
      let count = Number(await database.read(sumOfDay.get(metric, day)));
      for (const entry of unwritten()) {
        if (entry.metric !== metric || entry.day !== day) continue;
        count += entry.count;
        orgs.set(entry.org, (orgs.get(entry.org) ?? 0) + entry.count);
      }
      return { count, orgs };
    },
    flush() {
      if (waiting.size === 0) return Promise.resolve();
      flushing ??= write().finally(() => {
        flushing = undefined;
      });
      return flushing;
    },
  };
}
