import type { Database } from './database.ts';

export type Metric = 'builds' | 'pulls' | 'mounted';

/** Where a count is asked for: one day (`yyyy-mm-dd`, UTC), one organisation, both or everything. */
export interface UsageQuery {
  readonly day?: string | undefined;
  readonly org?: string | undefined;
}

export interface UsageStore {
  /** Adds one event of an organisation, or of nobody's when `org` is undefined. */
  add(metric: Metric, day: string, org: string | undefined): void;
  /** All events that match, those without an organisation among them. */
  count(metric: Metric, query: UsageQuery): number;
  /** Events by organisation; those without one are left out. */
  countByOrg(metric: Metric, query: UsageQuery): Record<string, number>;
  /** Writes what was added since the last time. */
  flush(): void;
}

/**
 * Counters by metric, day and organisation. Additions are gathered in memory and written together,
 * so that a pull never waits for the disk; queries see them at once.
 */
export function createUsageStore(database: Database): UsageStore {
  const add = database.prepare(
    `INSERT INTO usage (metric, day, org, count) VALUES (?, ?, ?, ?)
     ON CONFLICT (metric, day, org) DO UPDATE SET count = count + excluded.count`,
  );
  const query = database.prepare(
    `SELECT org, SUM(count) AS count FROM usage
     WHERE metric = @metric AND (@day IS NULL OR day = @day) AND (@org IS NULL OR org = @org)
     GROUP BY org`,
  );
  const waiting = new Map<string, { key: [Metric, string, string]; count: number }>();

  const flush = database.transaction(() => {
    for (const { key, count } of waiting.values()) add.run(...key, count);
    waiting.clear();
  });
  const rows = (metric: Metric, { day, org }: UsageQuery) => {
    flush();
    return query.all({ metric, day: day ?? null, org: org ?? null }) as Array<{
      org: string;
      count: number;
    }>;
  };

  return {
    add(metric, day, org = '') {
      const key = JSON.stringify([metric, day, org]);
      const entry = waiting.get(key);
      if (entry) entry.count += 1;
      else waiting.set(key, { key: [metric, day, org], count: 1 });
    },
    count: (metric, where) => rows(metric, where).reduce((sum, row) => sum + row.count, 0),
    countByOrg: (metric, where) =>
      Object.fromEntries(
        rows(metric, where)
          .filter(row => row.org !== '')
          .map(row => [row.org, row.count]),
      ),
    flush,
  };
}
