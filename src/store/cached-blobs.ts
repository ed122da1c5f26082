import type { Digest } from '../oci/digest.ts';
import type { Database } from './database.ts';

/** Which content is only a copy of an upstream blob, and when it was used last. */
export interface CachedBlobStore {
  /** Notes a use now; the first one enters the blob. */
  touch(digest: Digest, size: number, at: number): void;
  has(digest: Digest): boolean;
  /** Bytes of all cached blobs. */
  total(): number;
  /** The least recently used blob. */
  oldest(): { digest: Digest; size: number } | undefined;
  forget(digest: Digest): void;
}

export function createCachedBlobStore(database: Database): CachedBlobStore {
  const touch = database.prepare(
    `INSERT INTO cached_blobs (digest, size, used_at) VALUES (?, ?, ?)
     ON CONFLICT (digest) DO UPDATE SET used_at = excluded.used_at`,
  );
  const has = database.prepare('SELECT 1 FROM cached_blobs WHERE digest = ?').pluck();
  const total = database.prepare('SELECT COALESCE(SUM(size), 0) FROM cached_blobs').pluck();
  const oldest = database.prepare('SELECT digest, size FROM cached_blobs ORDER BY used_at LIMIT 1');
  const forget = database.prepare('DELETE FROM cached_blobs WHERE digest = ?');
  return {
    touch(digest, size, at) {
      touch.run(digest, size, at);
    },
    has: digest => has.get(digest) !== undefined,
    total: () => Number(total.get()),
    oldest: () => oldest.get() as { digest: Digest; size: number } | undefined,
    forget(digest) {
      forget.run(digest);
    },
  };
}
