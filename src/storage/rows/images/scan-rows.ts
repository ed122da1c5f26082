import type { RowDatabase } from '../row-database.ts';
import { inSmallSteps } from '../small-steps.ts';

/** A scan of the image of one container request. */
export interface ScanRow {
  readonly id: string;
  /** `registry/repository`, with the digest once it is known. */
  readonly image: string;
  /** In ms since the epoch, like all times here. */
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly succeeded: boolean | null;
  /** Why it failed. */
  readonly reason: string | null;
  /** What was found, packed. */
  readonly report: Buffer | null;
  readonly log: string;
}

/** How a scan ended. */
export interface ScanOutcome
  extends Pick<ScanRow, 'id' | 'image' | 'startedAt' | 'reason' | 'report' | 'log'> {
  /** What scans with the same result have in common; undefined where nothing may be shared. */
  readonly sameness: string | undefined;
  readonly succeeded: boolean;
  readonly finishedAt: number;
  /** All that was found, packed. Default: none. */
  readonly details?: Buffer | undefined;
  /** Id of the scan whose report and details are those of this one: it has none of its own. Default: it has its own. */
  readonly detailsOf?: string | undefined;
}

/** The result of a scan, for others of the same image. */
export interface SharedResult {
  readonly id: string;
  readonly report: Buffer;
}

export interface ScanStore {
  add(scan: Pick<ScanRow, 'id' | 'image' | 'createdAt'>): Promise<void>;
  find(id: string): Promise<ScanRow | undefined>;
  /** Returns the packed details of a scan; undefined for one without. */
  details(id: string): Promise<Buffer | undefined>;
  /** Returns the newest result of what is the same, in a span of time: a clock that was wrong may have dated others later. */
  sharedResult(sameness: string, since: number, until: number): Promise<SharedResult | undefined>;
  /** Ends a scan. The first end counts. */
  finish(outcome: ScanOutcome): Promise<void>;
  /** Removes scans that were requested before a time. */
  purge(before: number, signal?: AbortSignal): Promise<void>;
}

export function createScanStore(database: RowDatabase): ScanStore {
  const add = database.sql(
    'INSERT INTO scans (id, image, created_at) VALUES (@id, @image, @createdAt) ON CONFLICT (id) DO NOTHING',
  );
  const find = database.sql<Omit<ScanRow, 'succeeded'> & { readonly succeeded: number | null }>(
    `SELECT id, image, created_at AS createdAt, started_at AS startedAt, finished_at AS finishedAt,
     succeeded, reason, log,
     COALESCE(report, (SELECT origin.report FROM scans AS origin WHERE origin.id = scans.details_of)) AS report
     FROM scans WHERE id = ?`,
  );
  const details = database
    .sql(
      'SELECT details FROM scans WHERE id = (SELECT COALESCE(details_of, id) FROM scans WHERE id = ?)',
    )
    .pluck<Buffer | null>();
  const shared = database.sql<SharedResult>(
    `SELECT id, report FROM scans WHERE sameness = ? AND succeeded = 1 AND finished_at BETWEEN ? AND ?
     ORDER BY finished_at DESC LIMIT 1`,
  );
  const finish = database.sql(
    `UPDATE scans SET image = @image, sameness = @sameness, started_at = @startedAt, finished_at = @finishedAt,
     succeeded = @succeeded, reason = @reason, report = @report, details = @details, details_of = @detailsOf,
     log = @log WHERE id = @id AND finished_at IS NULL`,
  );
  const purge = database.sql(
    'DELETE FROM scans WHERE id IN (SELECT id FROM scans WHERE created_at < ? ORDER BY created_at LIMIT ?)',
  );

  return {
    add: ({ id, image, createdAt }) => database.write(() => add.run({ id, image, createdAt })),
    async find(id) {
      const row = await database.read(find.get(id));
      return row && { ...row, succeeded: row.succeeded === null ? null : row.succeeded === 1 };
    },
    details: async id => (await database.read(details.get(id))) ?? undefined,
    sharedResult: (sameness, since, until) => database.read(shared.get(sameness, since, until)),
    finish({ sameness = null, details: packed = null, detailsOf = null, succeeded, ...outcome }) {
      const nullable = { sameness, details: packed, detailsOf };
      return database.write(() =>
        finish.run({ ...outcome, ...nullable, succeeded: succeeded ? 1 : 0 }),
      );
    },
    async purge(before, signal) {
      await inSmallSteps(database, limit => purge.changes(before, limit), signal);
    },
  };
}
