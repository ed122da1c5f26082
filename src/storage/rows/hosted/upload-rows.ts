import type { KeptDraft } from '../../content/index.ts';
import type { RowDatabase } from '../driver/row-database.ts';

/** An upload that a client can continue after the end of the server. */
export interface UploadRow extends KeptDraft {
  readonly id: string;
  readonly repository: string;
  /** The account that began it. */
  readonly owner: string;
  /** When it received its last chunk (ms since the epoch). */
  readonly usedAt: number;
}

/** Uploads into hosted repositories that have not ended, with the bytes that are kept of them. */
export interface UploadStore {
  /** Enters an upload, or more bytes of it. Resolves when that would survive a power failure. */
  keep(upload: UploadRow): Promise<void>;
  /** Returns up to so many uploads, the last used first. */
  latest(limit: number): Promise<UploadRow[]>;
  remove(id: string): Promise<void>;
}

export function createUploadStore(database: RowDatabase): UploadStore {
  const keep = database.sql(
    `INSERT INTO uploads (id, repository, owner, draft, algorithm, size, used_at)
     VALUES (@id, @repository, @owner, @draft, @algorithm, @size, @usedAt)
     ON CONFLICT (id) DO UPDATE SET draft = excluded.draft, size = excluded.size, used_at = excluded.used_at`,
  );
  const latest = database.sql<UploadRow>(
    `SELECT id, repository, owner, draft, algorithm, size, used_at AS usedAt
     FROM uploads ORDER BY used_at DESC LIMIT ?`,
  );
  const remove = database.sql('DELETE FROM uploads WHERE id = ?');
  return {
    keep: ({ id, repository, owner, draft, algorithm, size, usedAt }) =>
      database.write(() => keep.run({ id, repository, owner, draft, algorithm, size, usedAt })),
    latest: limit => database.read(latest.all(limit)),
    remove: id => database.commit(() => remove.run(id)),
  };
}
