import type { Database } from '../database.ts';
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

export function createSessionStore(database: Database): SessionStore {
  const insert = database.prepare(
    `INSERT INTO sessions (hash, owner, sealed, created_at, used_at)
     VALUES (@hash, @owner, @sealed, @at, @at)`,
  );
  const trim = database.prepare(
    `DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE owner = @owner
     ORDER BY created_at DESC LIMIT -1 OFFSET @most)`,
  );
  const count = database.prepare("SELECT value FROM sums WHERE name = 'sessions'").pluck();
  const removeOldest = database.prepare(
    `DELETE FROM sessions WHERE hash IN
     (SELECT hash FROM sessions WHERE hash <> ? ORDER BY used_at LIMIT ?)`,
  );
  const find = database.prepare(
    'SELECT sealed, created_at AS createdAt, used_at AS usedAt FROM sessions WHERE hash = ?',
  );
  const touch = database.prepare('UPDATE sessions SET used_at = ? WHERE hash = ?');
  const remove = database.prepare('DELETE FROM sessions WHERE hash = ?');
  const purge = database.prepare(
    'DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE used_at < ? LIMIT ?)',
  );
  return {
    insert: ({ hash, owner, sealed, at }, most) =>
      database.write(() => {
        insert.run({ hash, owner, sealed, at });
        trim.run({ owner, most: most.ofOne });
        const excess = Number(count.get()) - most.inAll;
        if (excess > 0) removeOldest.run(hash, excess);
      }),
    find: async hash => find.get(hash) as SessionRow | undefined,
    touch: (hash, at) => database.commit(() => void touch.run(at, hash)),
    remove: hash => database.write(() => void remove.run(hash)),
    purge: (usedBefore, signal) =>
      inSmallSteps(database, rows => purge.run(usedBefore, rows).changes, signal),
  };
}
