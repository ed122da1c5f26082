import { boundedCache } from '../../../foundation/bounded-cache.ts';
import type { Digest } from '../../../oci/digest.ts';
import { condemnSql, isHeldSql } from '../content-rows.ts';
import { atLast, type RowDatabase } from '../row-database.ts';
import { createNotedChanges, inSmallSteps } from '../small-steps.ts';

/** Records which content is a copy of an upstream blob, and when it was used last. */
export interface CachedBlobStore {
  /** Enters a copy of a blob that a registry has sent. */
  enter(copy: CachedCopy): Promise<void>;
  /** Notes a use of a copy; does nothing for other content. A use that cannot be written is dropped. */
  touch(digest: Digest, at: number): void;
  has(digest: Digest): Promise<boolean>;
  /** True for a copy that nothing else here may need. */
  isMereCopy(digest: Digest): Promise<boolean>;
  /** True for a copy that this registry has sent, for one with the same bytes, and for one that a repository has. */
  isFrom(digest: Digest, place: string): Promise<boolean>;
  /**
   * Notes that a repository, `registry/repository`, has the blob of a copy. A note that cannot be written is dropped,
   * like a use.
   */
  addSource(digest: Digest, place: string): void;
  /** Returns the bytes of all cached blobs; kept as a sum. */
  total(): Promise<number>;
  /**
   * Returns the least recently used blob among those that were used at the moment or later.
   *
   * @param from ms since the epoch. Default: all blobs
   */
  oldest(from?: number): Promise<UsedCopy | undefined>;
  /**
   * Forgets a copy. Returns true when nothing else here may need its content, which is then marked as `going`.
   * Content that something else may need is left to the sweep, which knows whether it is needed.
   */
  drop(digest: Digest): Promise<boolean>;
  /**
   * Notes that something else needs the content: from the call on, the cache does not remove it. Resolves when the
   * note is written.
   */
  adopt(digest: Digest): Promise<void>;
  /**
   * Finds copies that a wrong clock has dated after the moment, dates their use to the moment, and returns their
   * number.
   */
  redate(at: number, signal?: AbortSignal): Promise<number>;
}

export interface UsedCopy {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
  /** ms since the epoch */
  readonly usedAt: number;
}

export interface CachedCopy {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
  /** All places that count as this source. */
  readonly places: readonly string[];
  /** ms since the epoch */
  readonly at: number;
  /** The content was here before the copy was made: something else may need it. */
  readonly wasHere: boolean;
}

// A registry can show the same blob in any number of repositories.
const mostSources = 1000;
// Far more than are adopted while one blob is copied.
const mostAdopted = 100_000;

export function createCachedBlobStore(database: RowDatabase): CachedBlobStore {
  const insert = database.sql(
    `INSERT INTO cached_blobs (digest, size, used_at, is_shared) VALUES (?, ?, ?, ?)
     ON CONFLICT (digest) DO UPDATE SET used_at = excluded.used_at`,
  );
  const addSource = database.sql(
    `INSERT INTO blob_sources (digest, registry)
     SELECT digest, @place FROM cached_blobs WHERE digest = @digest AND
       (SELECT COUNT(*) FROM (SELECT 1 FROM blob_sources WHERE digest = @digest LIMIT ${mostSources}) AS known) < ${mostSources}
     ON CONFLICT DO NOTHING`,
  );
  const touch = database.sql('UPDATE cached_blobs SET used_at = ? WHERE digest = ?');
  const has = database.sql('SELECT 1 FROM cached_blobs WHERE digest = ?').pluck<number>();
  const isMereCopy = database
    .sql('SELECT 1 FROM cached_blobs WHERE digest = ? AND is_shared = 0')
    .pluck<number>();
  const isHeld = database.sql(isHeldSql).pluck<number>();
  const condemn = database.sql(condemnSql);
  const share = database.sql('UPDATE cached_blobs SET is_shared = 1 WHERE digest = ?');
  const isFrom = database
    .sql('SELECT 1 FROM blob_sources WHERE digest = ? AND registry = ?')
    .pluck<number>();
  const total = database.sql("SELECT value FROM sums WHERE name = 'cached bytes'").pluck<number>();
  const oldest = database.sql<UsedCopy>(
    'SELECT digest, size, used_at AS usedAt FROM cached_blobs WHERE used_at >= ? ORDER BY used_at LIMIT 1',
  );
  const redate = database.sql(
    `UPDATE cached_blobs SET used_at = @at WHERE digest IN
     (SELECT digest FROM cached_blobs WHERE used_at > @at LIMIT @limit)`,
  );
  const forget = database.sql('DELETE FROM cached_blobs WHERE digest = ?');
  // Recently adopted content: a copy of it may be on its way in or out.
  const adopted = boundedCache<Digest, true>(mostAdopted);
  // Readers of the copy do not wait for the write.
  const { note, ended } = createNotedChanges(database);
  return {
    enter: ({ digest, size, places, at, wasHere }) =>
      database.commit(function* () {
        yield* atLast([
          insert.run(digest, size, at, wasHere || adopted.has(digest) ? 1 : 0),
          ...places.map(place => addSource.run({ place, digest })),
        ]);
      }),
    touch: (digest, at) => note(() => touch.run(at, digest)),
    has: async digest => (await database.read(has.get(digest))) !== undefined,
    isMereCopy: async digest =>
      !adopted.has(digest) && (await database.read(isMereCopy.get(digest))) !== undefined,
    isFrom: async (digest, place) => (await database.read(isFrom.get(digest, place))) !== undefined,
    addSource: (digest, place) => note(() => addSource.run({ place, digest })),
    total: async () => Number(await database.read(total.get())),
    async oldest(from = 0) {
      // A copy that was just used is not the oldest one.
      await ended();
      return database.read(oldest.get(from));
    },
    drop: digest =>
      database.commit(function* () {
        const isMere = (yield* isMereCopy.get(digest)) !== undefined;
        yield* forget.run(digest);
        if (!isMere || (yield* isHeld.get({ digest })) === 1 || adopted.has(digest)) return false;
        return yield* condemn.hasChanged({ digest, at: Date.now() });
      }),
    async adopt(digest) {
      adopted.set(digest, true);
      if ((await database.read(isMereCopy.get(digest))) === undefined) return;
      await database.commit(() => share.run(digest));
    },
    redate: (at, signal) => inSmallSteps(database, limit => redate.changes({ at, limit }), signal),
  };
}
