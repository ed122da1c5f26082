import type { Digest } from '../../../oci/digest.ts';
import type { Database } from '../database.ts';

/** A manifest of a hosted repository. */
export interface ContextRow {
  readonly repository: string;
  readonly digest: Digest;
}

/** The build contexts that were uploaded into hosted repositories. */
export interface ContextStore {
  /**
   * Returns up to so many contexts that were not pushed since the moment (ms since the epoch). A push refreshes all
   * blobs of its context, so one older blob is enough to know.
   *
   * @param prefix what the names of the repositories begin with, ending in `/`
   */
  old(prefix: string, before: number, limit: number): Promise<ContextRow[]>;
}

export function createContextStore(database: Database): ContextStore {
  const old = database.prepare(
    `SELECT r.name AS repository, m.digest FROM repositories r
     JOIN hosted_manifests m ON m.repository = r.id
     WHERE r.name >= @prefix AND r.name < @end AND EXISTS (
       SELECT 1 FROM hosted_parts p
       JOIN hosted_blobs b ON b.repository = p.repository AND b.digest = p.part
       WHERE p.repository = m.repository AND p.manifest = m.digest AND b.linked_at < @before)
     LIMIT @limit`,
  );
  return {
    async old(prefix, before, limit) {
      // `0` is what follows `/`.
      const end = `${prefix.slice(0, -1)}0`;
      return old.all({ prefix, end, before, limit }) as ContextRow[];
    },
  };
}
