import type { Digest } from '../../../oci/digest.ts';
import { isThere } from '../driver/is-there.ts';
import type { RowDatabase, RowsWork } from '../driver/row-database.ts';
import { createHostedQueries } from './hosted-queries.ts';
import { createImageRemoval } from './hosted-removals.ts';

/** A manifest of a hosted repository. */
export interface ContextRow {
  readonly repository: string;
  readonly digest: Digest;
}

/** A context, and whether it was not pushed since the moment. */
export interface AgedContext extends ContextRow {
  readonly isOld: boolean;
}

/** The build contexts that were uploaded into hosted repositories. */
export interface ContextStore {
  /**
   * Returns up to so many contexts after a context, in the order of their repositories and digests. A push refreshes
   * all blobs of its context, so a context with a blob that is older than the moment (ms since the epoch) is old.
   *
   * @param prefix what the names of the repositories begin with, ending in `/`
   * @param last undefined for the first contexts
   */
  after(
    prefix: string,
    last: ContextRow | undefined,
    before: number,
    limit: number,
  ): Promise<AgedContext[]>;
  /** Removes a context unless it was pushed since the moment; true when it did. */
  removeOld(context: ContextRow, before: number): Promise<boolean>;
}

const isOldSql = isThere(`hosted_parts p
  JOIN hosted_blobs b ON b.repository = p.repository AND b.digest = p.part
  WHERE p.repository = m.repository AND p.manifest = m.digest AND b.linked_at < @before`);

export function createContextStore(database: RowDatabase): ContextStore {
  const { removeManifest } = createImageRemoval(database, createHostedQueries(database));
  // Each context, old or not, costs a look at all of its blobs: the limit bounds that too.
  const contextsIn = database.sql<{ readonly digest: Digest; readonly isOld: number }>(
    `SELECT m.digest, ${isOldSql} AS isOld FROM hosted_manifests m
     WHERE m.repository = (SELECT id FROM repositories WHERE name = @repository) AND m.digest > @digest
     ORDER BY m.digest LIMIT @limit`,
  );
  // A repository stays for days after its last context.
  const nextRepository = database
    .sql(
      `SELECT name FROM repositories r WHERE name > ? AND name < ?
       AND ${isThere('hosted_manifests WHERE repository = r.id')} ORDER BY name LIMIT 1`,
    )
    .pluck<string>();
  const isOld = database
    .sql(
      `SELECT ${isOldSql} FROM hosted_manifests m
       WHERE m.repository = (SELECT id FROM repositories WHERE name = @repository) AND m.digest = @digest`,
    )
    .pluck<number>();

  function* contextsAfter(
    place: Pick<ContextRow, 'repository'> & { readonly digest: string },
    end: string,
    before: number,
    limit: number,
  ): RowsWork<AgedContext[]> {
    const found: AgedContext[] = [];
    for (let { repository, digest } = place; ; digest = '') {
      const rest = limit - found.length;
      const rows = yield* contextsIn.all({ repository, digest, before, limit: rest });
      found.push(...rows.map(row => ({ repository, digest: row.digest, isOld: row.isOld === 1 })));
      if (rows.length === rest) return found;
      const next = yield* nextRepository.get(repository, end);
      if (next === undefined) return found;
      repository = next;
    }
  }

  return {
    after(prefix, last, before, limit) {
      // `0` is what follows `/`.
      const end = `${prefix.slice(0, -1)}0`;
      const place = last ?? { repository: prefix, digest: '' };
      return database.read(contextsAfter(place, end, before, limit));
    },
    removeOld: ({ repository, digest }, before) =>
      database.commit(function* () {
        if ((yield* isOld.get({ repository, digest, before })) !== 1) return false;
        return yield* removeManifest(repository, digest);
      }),
  };
}
