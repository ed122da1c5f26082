import type { RowDatabase } from '../driver/row-database.ts';
import { together } from '../driver/together.ts';
import { inSmallSteps } from '../small-steps.ts';

/** A session of a browser as it is stored: useless without the value of its cookie. Times are ms since the epoch. */
export interface SessionRow {
  readonly sealed: Buffer;
  readonly createdAt: number;
  readonly usedAt: number;
}

export interface NewSession {
  readonly hash: Buffer;
  readonly owner: Buffer;
  readonly sealed: Buffer;
  readonly at: number;
}

/** The most sessions of one owner, and of all owners. */
export interface SessionLimits {
  readonly ofOne: number;
  readonly inAll: number;
}

/** Sessions by the hash of their cookie. */
export interface SessionStore {
  /**
   * Enters a session. Removes the oldest ones of the same owner, and those of all owners that were not used for the
   * longest time, so that no limit is exceeded. Resolves when the session would survive a power failure.
   */
  insert(session: NewSession, most: SessionLimits): Promise<void>;
  find(hash: Buffer): Promise<SessionRow | undefined>;
  /** Counts a session as used now. */
  touch(hash: Buffer, at: number): Promise<void>;
  /** Resolves when the end would survive a power failure. */
  remove(hash: Buffer): Promise<void>;
  /** Removes the sessions that were used last before the moment; returns how many. */
  purge(usedBefore: number, signal?: AbortSignal): Promise<number>;
}

export function createSessionStore(database: RowDatabase): SessionStore {
  const insert = database.sql(
    `INSERT INTO sessions (hash, owner, sealed, created_at, used_at)
     VALUES (@hash, @owner, @sealed, @at, @at)`,
  );
  const trim = database.sql(
    `DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE owner = @owner
     ORDER BY created_at DESC LIMIT ${Number.MAX_SAFE_INTEGER} OFFSET @most)`,
  );
  const count = database.sql("SELECT value FROM sums WHERE name = 'sessions'").pluck<number>();
  const removeOldest = database.sql(
    `DELETE FROM sessions WHERE hash IN
     (SELECT hash FROM sessions WHERE hash <> ? ORDER BY used_at LIMIT ?)`,
  );
  const find = database.sql<SessionRow>(
    'SELECT sealed, created_at AS createdAt, used_at AS usedAt FROM sessions WHERE hash = ?',
  );
  const touch = database.sql('UPDATE sessions SET used_at = ? WHERE hash = ?');
  const remove = database.sql('DELETE FROM sessions WHERE hash = ?');
  const purge = database.sql(
    'DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE used_at < ? LIMIT ?)',
  );
  return {
    insert: ({ hash, owner, sealed, at }, most) =>
      database.write(function* () {
        const [, , kept] = yield* together([
          insert.run({ hash, owner, sealed, at }),
          trim.run({ owner, most: most.ofOne }),
          count.get(),
        ]);
        const excess = Number(kept) - most.inAll;
        if (excess > 0) yield* removeOldest.run(hash, excess);
      }),
    find: hash => database.read(find.get(hash)),
    touch: (hash, at) => database.commit(() => touch.run(at, hash)),
    remove: hash => database.write(() => remove.run(hash)),
    purge: (usedBefore, signal) =>
      inSmallSteps(database, rows => purge.changes(usedBefore, rows), signal),
  };
}
