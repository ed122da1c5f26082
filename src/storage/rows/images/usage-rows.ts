import type { Database } from '../database.ts';

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
export function createUsageStore(database: Database): UsageStore {
  const insert = database.prepare(
    `INSERT INTO usage (metric, day, org, count) VALUES (?, ?, ?, ?)
     ON CONFLICT (metric, day, org) DO UPDATE SET count = count + excluded.count`,
  );
  const select = 'SELECT org, SUM(count) AS count FROM usage WHERE metric = @metric';
  // One statement for each form of the query, so that each has its index.
  const all = database.prepare(`${select} GROUP BY org`);
  const ofDay = database.prepare(`${select} AND day = @day GROUP BY org`);
  const ofOrg = database.prepare(`${select} AND org = @org GROUP BY org`);
  const ofBoth = database.prepare(`${select} AND day = @day AND org = @org GROUP BY org`);
  const sumOfDay = database
    .prepare('SELECT COALESCE(SUM(count), 0) FROM usage WHERE metric = ? AND day = ?')
    .pluck();
  const topOfDay = database.prepare(
    'SELECT org, count FROM usage WHERE metric = ? AND day = ? ORDER BY count DESC LIMIT ?',
  );
  const queryOf = ({ day, org }: UsageQuery) => {
    if (day !== undefined) return org === undefined ? ofDay : ofBoth;
    return org === undefined ? all : ofOrg;
  };
  const waiting = new Map<string, Waiting>();
  let flushing: Promise<void> | undefined;

  const add = (metric: Metric, day: string, org: string, count: number): void => {
    const key = JSON.stringify([metric, day, org]);
    const entry = waiting.get(key);
    if (entry) entry.count += count;
    else waiting.set(key, { metric, day, org, count });
  };
  const write = async (): Promise<void> => {
    let taken: Waiting[] = [];
    try {
      await database.commit(() => {
        taken = [...waiting.values()];
        waiting.clear();
        for (const { metric, day, org, count } of taken) insert.run(metric, day, org, count);
      });
    } catch (error) {
      for (const { metric, day, org, count } of taken) add(metric, day, org, count);
      throw error;
    }
  };
  /** Counts by organisation, including unwritten events. */
  const counts = (metric: Metric, { day, org }: UsageQuery): Map<string, number> => {
    const asked = {
      metric,
      ...(day === undefined ? {} : { day }),
      ...(org === undefined ? {} : { org }),
    };
    const rows = queryOf({ day, org }).all(asked) as Array<{
      org: string;
      count: number;
    }>;
    const found = new Map(rows.map(row => [row.org, row.count]));
    for (const entry of waiting.values()) {
      if (entry.metric !== metric || (day !== undefined && entry.day !== day)) continue;
      if (org !== undefined && entry.org !== org) continue;
      found.set(entry.org, (found.get(entry.org) ?? 0) + entry.count);
    }
    return found;
  };

  return {
    add: (metric, day, org = '') => add(metric, day, org, 1),
    count: async (metric, where) =>
      counts(metric, where)
        .values()
        .reduce((sum, one) => sum + one, 0),
    countByOrg: async (metric, where) =>
      Object.fromEntries(
        counts(metric, where)
          .entries()
          .filter(([org]) => org !== ''),
      ),
    async ofDay(metric, day, mostOrgs) {
      const rows = topOfDay.all(metric, day, mostOrgs) as Array<{ org: string; count: number }>;
      const orgs = new Map(rows.map(row => [row.org, row.count]));
      let count = sumOfDay.get(metric, day) as number;
      for (const entry of waiting.values()) {
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
