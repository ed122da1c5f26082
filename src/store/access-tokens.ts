import type { Database } from './database.ts';
import type { Listed, Page } from './page.ts';

/** An access token of the built-in platform as it is kept: without its value. Times are ms since the epoch. */
export interface AccessTokenRow {
  readonly id: number;
  /** Id of the user it belongs to. */
  readonly user: number;
  readonly name: string;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** `yyyy-mm-dd`, UTC */
  readonly usedDay: string | null;
}

/** Access tokens by the hash of their value; the value itself is not in the database. */
export interface AccessTokenStore {
  /** Undefined when the user has one of this name already. */
  insert(
    tokenHash: Buffer,
    row: Pick<AccessTokenRow, 'user' | 'name' | 'createdAt' | 'expiresAt'>,
  ): AccessTokenRow | undefined;
  findByHash(tokenHash: Buffer): AccessTokenRow | undefined;
  find(id: number): AccessTokenRow | undefined;
  /** Those of one user, or of all; oldest first. */
  list(user: number | undefined, page: Page): Listed<AccessTokenRow>;
  /** Notes the day of use, where it is another than before. */
  touch(id: number, day: string): void;
  /** True when there was such a token. */
  remove(id: number): boolean;
  /** Removes those of a user that ended before the moment. */
  removeEnded(user: number, before: number): void;
}

const columns =
  'id, user, name, created_at AS createdAt, expires_at AS expiresAt, used_day AS usedDay';

export function createAccessTokenStore(database: Database): AccessTokenStore {
  const insert = database.prepare(
    `INSERT INTO access_tokens (token_hash, user, name, created_at, expires_at)
     VALUES (@tokenHash, @user, @name, @createdAt, @expiresAt)
     ON CONFLICT (user, name) DO NOTHING RETURNING ${columns}`,
  );
  const findByHash = database.prepare(`SELECT ${columns} FROM access_tokens WHERE token_hash = ?`);
  const find = database.prepare(`SELECT ${columns} FROM access_tokens WHERE id = ?`);
  const chosen = 'FROM access_tokens WHERE (@user IS NULL OR user = @user)';
  const list = database.prepare(
    `SELECT ${columns} ${chosen} ORDER BY id LIMIT @limit OFFSET @offset`,
  );
  const count = database.prepare(`SELECT COUNT(*) ${chosen}`).pluck();
  const touch = database.prepare(
    'UPDATE access_tokens SET used_day = @day WHERE id = @id AND used_day IS NOT @day',
  );
  const remove = database.prepare('DELETE FROM access_tokens WHERE id = ?');
  const removeEnded = database.prepare(
    'DELETE FROM access_tokens WHERE user = ? AND expires_at < ?',
  );

  return {
    insert: (tokenHash, row) => insert.get({ ...row, tokenHash }) as AccessTokenRow | undefined,
    findByHash: tokenHash => findByHash.get(tokenHash) as AccessTokenRow | undefined,
    find: id => find.get(id) as AccessTokenRow | undefined,
    list(user, page) {
      const which = { user: user ?? null };
      return {
        entries: list.all({ ...which, ...page }) as AccessTokenRow[],
        total: Number(count.get(which)),
      };
    },
    touch(id, day) {
      touch.run({ id, day });
    },
    remove: id => remove.run(id).changes > 0,
    removeEnded: (user, before) => void removeEnded.run(user, before),
  };
}
