import type { Digest } from '../../../oci/digest.ts';
import { isThere } from '../driver/is-there.ts';
import type { RowDatabase } from '../driver/row-database.ts';

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
