import { type RowDatabase, together } from '../row-database.ts';
import { inSmallSteps } from '../small-steps.ts';
import type { Listed, NotAdded, Page, UserRow } from './user-rows.ts';

/** An access token of the built-in platform as it is stored: without its value. Times are ms since the epoch. */
export interface AccessTokenRow {
  readonly id: number;
  /** Id of the user that it belongs to. */
  readonly user: number;
  readonly name: string;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** `yyyy-mm-dd`, UTC */
  readonly usedDay: string | null;
  /** What it may do, as JSON text; null for everything that its user may do. */
  readonly rights: string | null;
  /** The administrator who created it for its user, as the audit log names them; null for its user. */
  readonly creator: string | null;
}

/** An access token with its user. */
export interface HeldTokenRow extends AccessTokenRow {
  readonly holder: UserRow;
}

/** Access tokens by the hash of their value; the value itself is not in the database. */
export interface AccessTokenStore {
  /**
   * Adds a token. Returns the reason when it adds nothing: the user does not exist, has a token of this name, or has
   * the maximum number.
   */
  insert(
    tokenHash: Buffer,
    row: Omit<AccessTokenRow, 'usedDay' | 'id'>,
    most: number,
  ): Promise<AccessTokenRow | NotAdded>;
  findByHash(tokenHash: Buffer): Promise<HeldTokenRow | undefined>;
  /** Returns the tokens of one user, or of all; oldest first. */
  list(user: number | undefined, page: Page): Promise<Listed<AccessTokenRow>>;
  /** Notes the day of use when it has changed; a note that cannot be written is dropped. */
  touch(id: number, day: string): Promise<void>;
  /** Removes a token, of the user if one is given, and returns it; undefined when it does not exist. */
  remove(id: number, user?: number): Promise<AccessTokenRow | undefined>;
  /** Removes tokens that expired before the moment; returns how many. */
  purge(endedBefore: number, signal?: AbortSignal): Promise<number>;
}

const accessTokenColumns =
  'id, "user", name, created_at AS createdAt, expires_at AS expiresAt, used_day AS usedDay, rights, creator';

export function createAccessTokenStore(database: RowDatabase): AccessTokenStore {
  const insert = database.sql<AccessTokenRow>(
    `INSERT INTO access_tokens (token_hash, "user", name, created_at, expires_at, rights, creator)
     VALUES (@tokenHash, @user, @name, @createdAt, @expiresAt, @rights, @creator)
     ON CONFLICT ("user", name) DO NOTHING RETURNING ${accessTokenColumns}`,
  );
  const findByHash = database.sql<AccessTokenRow & { email: string; userSince: number }>(
    `SELECT t.id, t."user", t.name, t.created_at AS createdAt, t.expires_at AS expiresAt, t.used_day AS usedDay,
       t.rights, t.creator, u.email, u.created_at AS userSince
     FROM access_tokens t JOIN users u ON u.id = t."user" WHERE t.token_hash = ?`,
  );
  const page = 'ORDER BY id LIMIT @limit OFFSET @offset';
  const list = database.sql<AccessTokenRow>(
    `SELECT ${accessTokenColumns} FROM access_tokens WHERE "user" = @user ${page}`,
  );
  const count = database.sql('SELECT COUNT(*) FROM access_tokens WHERE "user" = ?').pluck<number>();
  const listAll = database.sql<AccessTokenRow>(
    `SELECT ${accessTokenColumns} FROM access_tokens ${page}`,
  );
  const countAll = database
    .sql("SELECT value FROM sums WHERE name = 'access tokens'")
    .pluck<number>();
  const touch = database.sql(
    'UPDATE access_tokens SET used_day = @day WHERE id = @id AND (used_day IS NULL OR used_day <> @day)',
  );
  const remove = database.sql<AccessTokenRow>(
    `DELETE FROM access_tokens WHERE id = @id AND "user" = COALESCE(@user, "user") RETURNING ${accessTokenColumns}`,
  );
  const hasUser = database.sql('SELECT 1 FROM users WHERE id = ?');
  const purge = database.sql(
    `DELETE FROM access_tokens WHERE id IN
     (SELECT id FROM access_tokens WHERE expires_at < ? LIMIT ?)`,
  );

  return {
    insert: (tokenHash, row, most) =>
      database.write(function* () {
        if ((yield* hasUser.get(row.user)) === undefined) return 'unknown-owner';
        if (Number(yield* count.get(row.user)) >= most) return 'too-many';
        return (yield* insert.get({ ...row, tokenHash })) ?? 'taken';
      }),
    async findByHash(tokenHash) {
      const found = await database.read(findByHash.get(tokenHash));
      if (!found) return undefined;
      const { email, userSince, ...token } = found;
      return { ...token, holder: { id: token.user, email, createdAt: userSince } };
    },
    async list(user, page) {
      const isOfAll = user === undefined;
      const [entries, total] = await database.read(
        together([
          isOfAll ? listAll.all({ ...page }) : list.all({ user, ...page }),
          isOfAll ? countAll.get() : count.get(user),
        ]),
      );
      return { entries, total: Number(total) };
    },
    touch: (id, day) =>
      database.commit(() => touch.run({ id, day }), { patienceMs: 0 }).catch(() => {}),
    remove: (id, user) => database.write(() => remove.get({ id, user: user ?? null })),
    purge: (endedBefore, signal) =>
      inSmallSteps(database, rows => purge.changes(endedBefore, rows), signal),
  };
}

/** A session of a browser as it is stored: useless without the value of its cookie. Times are ms since the epoch. */
interface SessionRow {
  readonly sealed: Buffer;
  readonly createdAt: number;
  readonly usedAt: number;
}

interface NewSession {
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
