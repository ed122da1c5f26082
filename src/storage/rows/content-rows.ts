import type { Digest } from '../../oci/digest.ts';
import {
  abandonedArrivalMs,
  abandonedRemovalMs,
  type ContentState,
  type ContentUses,
} from '../content/index.ts';
import { isThere, type RowDatabase, type RowsWork, together } from './row-database.ts';

/** Records which content is here and when it was used last, and answers the queries of a sweep. */
export interface ContentRowStore extends ContentUses {
  /** Returns up to so many contents after a digest, in the order of their digests. */
  after(digest: string, limit: number, linkedBefore: number): Promise<ContentRow[]>;
  /** Returns the digests that have no row. */
  unknown(digests: readonly Digest[]): Promise<Digest[]>;
  /**
   * Marks content as `going` when it was not used since the moment and no row refers to it; true when it did. Resolves
   * when the mark would survive a power failure.
   */
  markUnused(digest: Digest, usedBefore: number): Promise<boolean>;
  /** Counts content as used now when a wrong clock has dated its use in the future. */
  redate(digest: Digest): Promise<void>;
}

export interface ContentRow {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
  /** ms since the epoch; for content that is `going`, when its removal began. */
  readonly usedAt: number;
  readonly state: ContentState;
  /** A hosted repository or the cache of upstream blobs refers to it. */
  readonly isReferred: boolean;
}

type StoredRow = Omit<ContentRow, 'isReferred'> & { readonly isReferred: number };

/** Counts content as used, within the transaction that adds a reference to it. */
export const claimSql = `UPDATE contents SET used_at = @at WHERE digest = @digest AND state = 'here'`;
/**
 * Marks content as going, even when something needs it; also within the transaction that removes the last reference.
 */
export const condemnSql = `INSERT INTO contents (digest, size, used_at, state) VALUES (@digest, 0, @at, 'going')
  ON CONFLICT (digest) DO UPDATE SET state = 'going', used_at = excluded.used_at WHERE contents.state <> 'going'`;
/** Asks whether a hosted repository has content, as a blob or as a manifest. */
export const isHeldSql = `SELECT EXISTS (SELECT 1 FROM hosted_blobs WHERE digest = @digest)
  OR EXISTS (SELECT 1 FROM hosted_manifests WHERE digest = @digest)`;

export function createContentRowStore(database: RowDatabase): ContentRowStore {
  const sql = <Row>(text: string) => database.sql<Row>(text);
  const announce = sql(
    `INSERT INTO contents (digest, size, used_at, state) VALUES (@digest, @size, @at, 'coming')
     ON CONFLICT (digest) DO UPDATE SET used_at = excluded.used_at WHERE contents.state <> 'going'
     RETURNING state`,
  ).pluck<ContentState>();
  const arrive = sql(
    `UPDATE contents SET state = 'here', used_at = @at WHERE digest = @digest AND state <> 'going'`,
  );
  const isHere = sql(`SELECT 1 FROM contents WHERE digest = ? AND state = 'here'`).pluck<number>();
  const claim = sql(claimSql);
  const condemn = sql(condemnSql);
  const takeOver = sql(
    `UPDATE contents SET used_at = @at
     WHERE digest = @digest AND state = 'going' AND used_at < @markedBefore`,
  );
  const forget = sql(`DELETE FROM contents WHERE digest = ? AND state = 'going'`);
  const forgetShare = sql('DELETE FROM anonymous_content WHERE digest = ?');
  const after = sql<StoredRow>(
    `SELECT c.digest, c.size, c.used_at AS usedAt, c.state,
       ${isThere('cached_blobs WHERE digest = c.digest')} OR
       ${isThere('hosted_manifests WHERE digest = c.digest')} OR
       ${isThere(`hosted_blobs b WHERE b.digest = c.digest AND (b.linked_at >= @linkedBefore OR ${isPartOfManifest('b')})`)}
       AS isReferred
     FROM contents c WHERE c.digest > @digest ORDER BY c.digest LIMIT @limit`,
  );
  const isKnown = sql('SELECT 1 FROM contents WHERE digest = ?').pluck<number>();
  const markUnused = sql(
    `UPDATE contents SET state = 'going', used_at = @at
     WHERE digest = @digest AND used_at < @usedBefore
       AND (state = 'here' OR (state = 'coming' AND used_at < @announcedBefore))
       AND NOT EXISTS (SELECT 1 FROM cached_blobs WHERE digest = @digest)
       AND NOT EXISTS (SELECT 1 FROM hosted_manifests WHERE digest = @digest)
       AND NOT EXISTS (SELECT 1 FROM hosted_blobs WHERE digest = @digest)`,
  );
  const redate = sql('UPDATE contents SET used_at = ? WHERE digest = ?');

  function* findUnknown(digests: readonly Digest[]): RowsWork<Digest[]> {
    const known = yield* together(digests.map(digest => isKnown.get(digest)));
    return digests.filter((_, at) => known[at] === undefined);
  }

  return {
    announce: async (digest, size) =>
      (await database.commit(() => announce.get({ digest, size, at: Date.now() }))) ?? 'going',
    isHere: async digest => (await database.read(isHere.get(digest))) !== undefined,
    arrive: digest => database.commit(() => arrive.hasChanged({ digest, at: Date.now() })),
    claim: digest => database.commit(() => claim.hasChanged({ digest, at: Date.now() })),
    condemn: digest => database.commit(() => condemn.hasChanged({ digest, at: Date.now() })),
    takeOver: digest =>
      database.commit(() => {
        const at = Date.now();
        return takeOver.hasChanged({ digest, at, markedBefore: at - abandonedRemovalMs });
      }),
    forget: digest =>
      database.commit(function* () {
        // Content of callers without a login takes none of their room any more.
        if (yield* forget.hasChanged(digest)) yield* forgetShare.run(digest);
      }),

    async after(digest, limit, linkedBefore) {
      const rows = await database.read(after.all({ digest, limit, linkedBefore }));
      return rows.map(row => ({ ...row, isReferred: row.isReferred === 1 }));
    },
    unknown: digests => database.read(findUnknown(digests)),
    markUnused: (digest, usedBefore) =>
      database.write(() => {
        const at = Date.now();
        const announcedBefore = at - abandonedArrivalMs;
        return markUnused.hasChanged({ digest, at, usedBefore, announcedBefore });
      }),
    redate: digest => database.commit(() => redate.run(Date.now(), digest)),
  };
}

/** Content, and what refers to it. */
export interface UsedContent {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
  readonly isCached: boolean;
  readonly isPackageLayer: boolean;
  /** One of the hosted repositories that have it; null if none has. */
  readonly repository: string | null;
  /** The type of one of the manifests that refer to it there. */
  readonly artifactType: string | null;
}

export interface ContentUseStore {
  /** Returns up to so many contents after a digest, in the order of their digests. */
  after(digest: string, limit: number): Promise<UsedContent[]>;
}

type StoredUse = Omit<UsedContent, 'isCached' | 'isPackageLayer'> & {
  readonly isCached: number;
  readonly isPackageLayer: number;
};

export function createContentUseStore(database: RowDatabase): ContentUseStore {
  // One repository and one manifest are enough: content may be in any number of them.
  const after = database.sql<StoredUse>(
    `SELECT c.digest, c.size,
       ${isThere('cached_blobs WHERE digest = c.digest')} AS isCached,
       ${isThere('package_layers WHERE digest = c.digest')} AS isPackageLayer,
       COALESCE(
         (SELECT r.name FROM hosted_blobs b CROSS JOIN repositories r
          WHERE r.id = b.repository AND b.digest = c.digest LIMIT 1),
         (SELECT r.name FROM hosted_manifests m CROSS JOIN repositories r
          WHERE r.id = m.repository AND m.digest = c.digest LIMIT 1)) AS repository,
       (SELECT m.artifact_type FROM hosted_blobs b
          CROSS JOIN hosted_parts p CROSS JOIN hosted_manifests m
        WHERE p.repository = b.repository AND p.part = b.digest
          AND m.repository = p.repository AND m.digest = p.manifest AND b.digest = c.digest LIMIT 1) AS artifactType
     FROM contents c WHERE c.digest > ? ORDER BY c.digest LIMIT ?`,
  );
  return {
    async after(digest, limit) {
      const rows = await database.read(after.all(digest, limit));
      return rows.map(row => ({
        ...row,
        isCached: row.isCached === 1,
        isPackageLayer: row.isPackageLayer === 1,
      }));
    },
  };
}

/**
 * Returns a condition: a manifest of the same repository lists the content of a row.
 *
 * @param row name of the row in the statement, with its `repository` and `digest`
 */
export function isPartOfManifest(row: string): string {
  return isThere(
    `hosted_parts p WHERE p.repository = ${row}.repository AND p.part = ${row}.digest`,
  );
}
