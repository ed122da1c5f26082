import type { Database } from './database.ts';

/** A container request as it is kept: times in ms since the epoch, the rest as JSON text. */
export interface RequestRow {
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly revokedAt: number | null;
  readonly body: string;
}

/** Container requests by the hash of their token; the token itself is not in the database. */
export interface RequestStore {
  /** Resolves when the request would survive the end of the process. */
  insert(tokenHash: Buffer, row: Omit<RequestRow, 'revokedAt'>): Promise<void>;
  find(tokenHash: Buffer): RequestRow | undefined;
  /** True when there was such a request and it was not revoked before. */
  revoke(tokenHash: Buffer, at: number): boolean;
  /** Requests that can be pulled at the moment, a page at a time: those after an id, by id. */
  live(afterId: number, at: number, limit: number): Array<{ id: number; body: string }>;
  /** Removes the requests that ended before the moment; returns how many. */
  purge(endedBefore: number): number;
}

type InsertedRow = readonly [tokenHash: Buffer, createdAt: number, expiresAt: number, body: string];

interface Group {
  readonly rows: InsertedRow[];
  readonly written: PromiseWithResolvers<void>;
}

export function createRequestStore(database: Database): RequestStore {
  const insert = database.prepare(
    'INSERT INTO requests (token_hash, created_at, expires_at, body) VALUES (?, ?, ?, ?)',
  );
  const find = database.prepare(
    'SELECT created_at AS createdAt, expires_at AS expiresAt, revoked_at AS revokedAt, body FROM requests WHERE token_hash = ?',
  );
  const revoke = database.prepare(
    'UPDATE requests SET revoked_at = ? WHERE token_hash = ? AND revoked_at IS NULL',
  );
  const live = database.prepare(
    'SELECT id, body FROM requests WHERE id > ? AND expires_at > ? AND revoked_at IS NULL ORDER BY id LIMIT ?',
  );
  const purge = database.prepare('DELETE FROM requests WHERE expires_at < ?');

  // What comes in within one turn of the event loop is written together: a transaction costs more than a row.
  let group: Group | undefined;
  const commit = database.transaction((rows: readonly InsertedRow[]) => {
    for (const row of rows) insert.run(...row);
  });
  const add = (row: InsertedRow): Promise<void> => {
    if (!group) {
      const opened: Group = { rows: [], written: Promise.withResolvers() };
      group = opened;
      setImmediate(() => {
        group = undefined;
        try {
          commit(opened.rows);
          opened.written.resolve();
        } catch (error) {
          opened.written.reject(error);
        }
      });
    }
    group.rows.push(row);
    return group.written.promise;
  };

  return {
    insert: (tokenHash, { createdAt, expiresAt, body }) =>
      add([tokenHash, createdAt, expiresAt, body]),
    find: tokenHash => find.get(tokenHash) as RequestRow | undefined,
    revoke: (tokenHash, at) => revoke.run(at, tokenHash).changes > 0,
    live: (afterId, at, limit) => live.all(afterId, at, limit) as ReturnType<RequestStore['live']>,
    purge: endedBefore => purge.run(endedBefore).changes,
  };
}
