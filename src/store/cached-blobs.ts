import type { Digest } from '../oci/digest.ts';
import type { Database } from './database.ts';

/** Which content is only a copy of an upstream blob, and when it was used last. */
export interface CachedBlobStore {
  /** Enters a copy of what a registry has sent, for all the places that are meant by it. */
  enter(digest: Digest, size: number, places: readonly string[], at: number): void;
  /** Notes a use of a copy; nothing for what is none. */
  touch(digest: Digest, at: number): void;
  has(digest: Digest): boolean;
  /** True for a copy that this registry has sent, or one with the same bytes; or for one that a repository has. */
  isFrom(digest: Digest, place: string): boolean;
  /** Notes that a repository, `registry/repository`, has what a copy is of. */
  addSource(digest: Digest, place: string): void;
  /** Bytes of all cached blobs. */
  total(): number;
  /** The least recently used blob. */
  oldest(): { digest: Digest; size: number } | undefined;
  forget(digest: Digest): void;
}

export function createCachedBlobStore(database: Database): CachedBlobStore {
  const insert = database.prepare(
    `INSERT INTO cached_blobs (digest, size, used_at) VALUES (?, ?, ?)
     ON CONFLICT (digest) DO UPDATE SET used_at = excluded.used_at`,
  );
  const addSource = database.prepare(
    `INSERT OR IGNORE INTO blob_sources (digest, registry)
     SELECT digest, ? FROM cached_blobs WHERE digest = ?`,
  );
  const touch = database.prepare('UPDATE cached_blobs SET used_at = ? WHERE digest = ?');
  const has = database.prepare('SELECT 1 FROM cached_blobs WHERE digest = ?').pluck();
  const isFrom = database
    .prepare('SELECT 1 FROM blob_sources WHERE digest = ? AND registry = ?')
    .pluck();
  const total = database.prepare('SELECT COALESCE(SUM(size), 0) FROM cached_blobs').pluck();
  const oldest = database.prepare('SELECT digest, size FROM cached_blobs ORDER BY used_at LIMIT 1');
  const forget = database.prepare('DELETE FROM cached_blobs WHERE digest = ?');
  return {
    enter: database.transaction((digest, size, places, at) => {
      insert.run(digest, size, at);
      for (const place of places) addSource.run(place, digest);
    }),
    touch(digest, at) {
      touch.run(at, digest);
    },
    has: digest => has.get(digest) !== undefined,
    isFrom: (digest, place) => isFrom.get(digest, place) !== undefined,
    addSource(digest, place) {
      addSource.run(place, digest);
    },
    total: () => Number(total.get()),
    oldest: () => oldest.get() as { digest: Digest; size: number } | undefined,
    forget(digest) {
      forget.run(digest);
    },
  };
}
