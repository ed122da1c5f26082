import type { RowDatabase } from '../row-database.ts';
import { inSmallSteps } from '../small-steps.ts';

/** A run at a workflow platform that names end with. */
export interface RunRow {
  readonly key: Buffer;
  /** Its names end then, unless the run is confirmed before. In ms since the epoch, like all times here. */
  readonly leaseUntil: number;
  /** When its last name ends in any case. */
  readonly endsAt: number;
}

/** The runs that names end with. A request that ends with one adds it, see {@link RequestStore}. */
export interface RunStore {
  /**
   * Returns up to so many runs of a platform that are due, in the order in which they became due. Runs that are due after `latest`
   * come last: a wrong clock has dated them.
   */
  due(platform: string, now: number, latest: number, limit: number): Promise<RunRow[]>;
  /** Returns the newest requests that end with a run and were not revoked. */
  newestRequests(key: Buffer, limit: number): Promise<{ readonly body: string }[]>;
  /** Sets the end of all names of a run, and when it is due again. */
  renew(key: Buffer, leaseUntil: number, dueAt: number): Promise<void>;
  /** Sets when a run is due again. */
  postpone(key: Buffer, dueAt: number): Promise<void>;
  /** Ends the names of a run, which is never due again unless a new request confirms it. */
  end(key: Buffer, at: number): Promise<void>;
  /** Removes runs whose last name ended before a time; returns how many. Those that end after `latest` were dated by a wrong clock. */
  purge(endedBefore: number, latest: number, signal?: AbortSignal): Promise<number>;
}

export function createRunStore(database: RowDatabase): RunStore {
  const columns = 'run AS key, lease_until AS leaseUntil, ends_at AS endsAt';
  const due = database.sql<RunRow>(
    `SELECT ${columns} FROM runs WHERE platform = @platform AND due_at <= @now ORDER BY due_at LIMIT @limit`,
  );
  const misdated = database.sql<RunRow>(
    `SELECT ${columns} FROM runs WHERE platform = @platform AND due_at > @latest ORDER BY due_at LIMIT @limit`,
  );
  const newestRequests = database.sql<{ readonly body: string }>(
    'SELECT body FROM requests WHERE run = ? AND revoked_at IS NULL ORDER BY id DESC LIMIT ?',
  );
  const renew = database.sql(
    'UPDATE runs SET lease_until = @leaseUntil, due_at = @dueAt WHERE run = @key AND due_at IS NOT NULL',
  );
  const postpone = database.sql(
    'UPDATE runs SET due_at = @dueAt WHERE run = @key AND due_at IS NOT NULL',
  );
  const end = database.sql(
    'UPDATE runs SET lease_until = CASE WHEN lease_until < @at THEN lease_until ELSE @at END, due_at = NULL WHERE run = @key',
  );
  const purge = database.sql(
    'DELETE FROM runs WHERE run IN (SELECT run FROM runs WHERE ends_at < @endedBefore ORDER BY ends_at LIMIT @limit)',
  );
  const redate = database.sql(
    'UPDATE runs SET ends_at = @latest WHERE run IN (SELECT run FROM runs WHERE ends_at > @latest ORDER BY ends_at LIMIT @limit)',
  );

  return {
    async due(platform, now, latest, limit) {
      const found = await database.read(due.all({ platform, now, limit }));
      const rest = limit - found.length;
      if (rest === 0) return found;
      return [...found, ...(await database.read(misdated.all({ platform, latest, limit: rest })))];
    },
    newestRequests: (key, limit) => database.read(newestRequests.all(key, limit)),
    renew: (key, leaseUntil, dueAt) => database.write(() => renew.run({ key, leaseUntil, dueAt })),
    postpone: (key, dueAt) => database.write(() => postpone.run({ key, dueAt })),
    end: (key, at) => database.write(() => end.run({ key, at })),
    async purge(endedBefore, latest, signal) {
      await inSmallSteps(database, limit => redate.changes({ latest, limit }), signal);
      return inSmallSteps(database, limit => purge.changes({ endedBefore, limit }), signal);
    },
  };
}
