import type { Digest } from '../../../oci/digest.ts';
import { isHeldSql, isPartOfManifest } from '../content-rows.ts';
import { messageInserts, type NewMessage } from '../messages/message-rows.ts';
import { type Call, isThere, type RowDatabase, type RowsWork, together } from '../row-database.ts';
import { eachRow, inOrder } from '../small-steps.ts';
import type {
  BlobRemoval,
  HostedImage,
  HostedManifest,
  HostedReferrer,
  HostedRemovals,
} from './hosted-store.ts';

const manifestColumns =
  'm.digest, m.media_type AS mediaType, m.size, m.subject, m.artifact_type AS artifactType, m.annotations';
/** Condition for a row that is in the repository with a name. */
const inRepository = 'repository = (SELECT id FROM repositories WHERE name = ?)';
const hasContent = `${isThere('hosted_blobs WHERE repository = r.id')}
  OR ${isThere('hosted_manifests WHERE repository = r.id')}`;

/** Calls that read single repositories, within a change or without. */
export type HostedQueries = ReturnType<typeof createHostedQueries>;

export function createHostedQueries(database: RowDatabase) {
  const sql = <Row = unknown>(text: string) => database.sql<Row>(text);
  const repositoryId = sql('SELECT id FROM repositories WHERE name = ?').pluck<number>();
  const hasRepository = sql(
    `SELECT 1 FROM repositories r WHERE name = ? AND (${hasContent})`,
  ).pluck<number>();
  const repositories = sql(
    `SELECT name FROM repositories r WHERE name > ? AND (${hasContent}) ORDER BY name LIMIT ?`,
  ).pluck<string>();
  const manifest = sql<HostedManifest>(
    `SELECT ${manifestColumns} FROM hosted_manifests m WHERE ${inRepository} AND digest = ?`,
  );
  const manifestsOf = sql<{ readonly digest: Digest; readonly isUntagged: number }>(
    `SELECT digest, subject IS NULL
       AND NOT (${isThere('hosted_tags t WHERE t.repository = m.repository AND t.digest = m.digest')})
       AND NOT (${isPartOfManifest('m')})
       AS isUntagged
     FROM hosted_manifests m WHERE ${inRepository} AND digest > ? ORDER BY digest LIMIT ?`,
  );
  // With a further column from the outer rows, SQLite would read all manifests of the repository by their digests.
  const referrers = sql<HostedReferrer>(
    `SELECT digest, (SELECT artifact_type FROM hosted_manifests m
       WHERE m.repository = s.repository AND m.digest = s.digest) AS artifactType
     FROM hosted_manifests s WHERE ${inRepository} AND subject = ? AND digest > ? ORDER BY digest LIMIT ?`,
  );
  const taggedManifest = sql<HostedManifest>(
    `SELECT ${manifestColumns} FROM hosted_tags t
     JOIN hosted_manifests m ON m.repository = t.repository AND m.digest = t.digest
     WHERE t.repository = (SELECT id FROM repositories WHERE name = ?) AND t.name = ?`,
  );
  const tagged = sql(
    `SELECT digest FROM hosted_tags WHERE ${inRepository} AND name = ?`,
  ).pluck<Digest>();
  const isTagged = sql(`SELECT 1 FROM hosted_tags WHERE ${inRepository} AND digest = ? LIMIT 1`);
  const partsOf = sql(
    `SELECT part FROM hosted_parts WHERE ${inRepository} AND manifest = ?`,
  ).pluck<Digest>();
  const tags = sql(
    `SELECT name FROM hosted_tags WHERE ${inRepository} AND name > ? ORDER BY name LIMIT ?`,
  ).pluck<string>();
  const tagsOf = sql(
    `SELECT name FROM hosted_tags WHERE ${inRepository} AND digest = ? ORDER BY name LIMIT ?`,
  ).pluck<string>();
  const soleParts = sql(
    `SELECT part FROM hosted_parts AS p WHERE ${inRepository} AND manifest = ? AND NOT EXISTS
       (SELECT 1 FROM hosted_parts o
        WHERE o.repository = p.repository AND o.part = p.part AND o.manifest <> p.manifest)`,
  ).pluck<Digest>();
  const blobSize = sql(
    `SELECT size FROM hosted_blobs WHERE ${inRepository} AND digest = ?`,
  ).pluck<number>();
  const holders = sql(
    'SELECT name FROM hosted_blobs b JOIN repositories r ON r.id = b.repository WHERE digest = ? LIMIT ?',
  ).pluck<string>();
  const needs = sql(
    `SELECT manifest FROM hosted_parts WHERE ${inRepository} AND part = ? LIMIT 1`,
  ).pluck<Digest>();
  const repositoryBytes = sql('SELECT bytes FROM repositories WHERE name = ?').pluck<number>();
  const bytesBelow = sql(
    `SELECT SUM(bytes) FROM repositories
     WHERE name = @name OR (name >= @name || '/' AND name < @name || '0')`,
  ).pluck<number | null>();
  const totalBytes = sql("SELECT value FROM sums WHERE name = 'hosted bytes'").pluck<number>();
  const isHeld = sql(isHeldSql).pluck<number>();

  return {
    repositoryId: repositoryId.get,
    hasRepository: hasRepository.get,
    repositories: repositories.all,
    manifest: manifest.get,
    manifestsOf: manifestsOf.all,
    referrers: referrers.all,
    tagged: tagged.get,
    taggedManifest: taggedManifest.get,
    isTagged: isTagged.get,
    partsOf: partsOf.all,
    tags: tags.all,
    tagsOf: tagsOf.all,
    soleParts: soleParts.all,
    blobSize: blobSize.get,
    holdersOf: holders.all,
    /** Returns a manifest of the repository that refers to the content. */
    needs: needs.get,
    repositoryBytes: repositoryBytes.get,
    bytesBelow: bytesBelow.get,
    totalBytes: totalBytes.get,
    isHeld: isHeld.get,
  };
}

// Referrers of an image that is deleted: a lock file, and the user's attachments.
const mostReferrers = 100;
// Condition for a repository `r` that has something.
const isUsedSql = ['hosted_blobs', 'hosted_manifests', 'hosted_parts', 'hosted_tags']
  .map(table => isThere(`${table} WHERE repository = r.id`))
  .join(' OR ');

interface FoundRepository {
  readonly id: number;
  readonly name: string;
  readonly isUsed: number;
}

/** The last tag and the last manifest that a removal of a repository has reached. */
interface RemovalPlace {
  readonly tag: string;
  readonly digest: string;
}

export function createHostedRemovals(
  database: RowDatabase,
  queries: HostedQueries,
): HostedRemovals {
  const sql = (text: string) => database.sql(text);
  const { removeManifest, removeTag } = createImageRemoval(database, queries);
  const removeTags = sql(
    `DELETE FROM hosted_tags WHERE repository = @id AND name IN
     (SELECT name FROM hosted_tags WHERE repository = @id AND name > @after ORDER BY name LIMIT @limit)
     RETURNING name`,
  ).pluck<string>();
  const someManifests = sql(
    'SELECT digest FROM hosted_manifests WHERE repository = @id AND digest > @after ORDER BY digest LIMIT @limit',
  ).pluck<Digest>();
  const removeIfEmpty = sql(`DELETE FROM repositories AS r WHERE id = ? AND NOT (${isUsedSql})`);
  const someRepositories = database.sql<FoundRepository>(
    `SELECT id, name, ${isUsedSql} AS isUsed
     FROM repositories r WHERE id > ? ORDER BY id LIMIT ?`,
  );
  const removeBlob = sql(`DELETE FROM hosted_blobs WHERE ${inRepository} AND digest = ?`);
  const removeOrphan = sql(
    `DELETE FROM hosted_blobs AS b WHERE repository = ? AND digest = ? AND linked_at < ?
     AND NOT (${isPartOfManifest('b')})`,
  );
  const redate = sql('UPDATE hosted_blobs SET linked_at = ? WHERE repository = ? AND digest = ?');

  const inserts = messageInserts(database);

  /** Adds messages to a removal, if it removes something. */
  function* announced(removal: Call<boolean>, messages: readonly NewMessage[]) {
    const isRemoved = yield* removal;
    if (isRemoved && messages.length > 0) yield* together(inserts(messages));
    return isRemoved;
  }

  function* removeUnneededBlob(repository: string, digest: Digest): RowsWork<BlobRemoval> {
    const manifest = yield* queries.needs(repository, digest);
    if (manifest !== undefined) return { kind: 'needed', manifest };
    const removed = yield* removeBlob.changes(repository, digest);
    return { kind: removed > 0 ? 'removed' : 'unknown' };
  }

  /** Removes tags, then manifests, after a place. */
  function* removeSome(repository: string, { tag, digest }: RemovalPlace, limit: number) {
    const id = (yield* queries.repositoryId(repository)) ?? 0;
    const tags = yield* removeTags.all({ id, after: tag, limit });
    const rest = limit - tags.length;
    // Tags are ASCII: their order is that of the database.
    const lastTag = tags.reduce((one, other) => (other > one ? other : one), tag);
    if (rest === 0) return { found: limit, place: { tag: lastTag, digest } };
    const digests = yield* someManifests.all({ id, after: digest, limit: rest });
    yield* together(digests.map(digest => removeManifest(repository, digest)));
    if (digests.length < rest) yield* removeIfEmpty.run(id);
    const place = { tag: lastTag, digest: digests.at(-1) ?? digest };
    return { found: tags.length + digests.length, place };
  }

  return {
    removeManifest: (repository, digest, { messages = [], signal } = {}) =>
      database.write(() => announced(removeManifest(repository, digest), messages), { signal }),
    removeTag: (repository, tag, { messages = [], signal } = {}) =>
      database.write(() => announced(removeTag(repository, tag), messages), { signal }),
    removeBlob: (repository, digest, { signal } = {}) =>
      database.write(() => removeUnneededBlob(repository, digest), { signal }),
    async removeManifests(repository) {
      const first: RemovalPlace = { tag: '', digest: '' };
      const pass = () =>
        inOrder(database, first, (from, limit) => removeSome(repository, from, limit));
      // An index that was pushed meanwhile to a place that was passed would stay without its images.
      while ((await pass()) > 0);
    },
    removeOrphans: (orphans, linkedBefore) =>
      database.commit(function* () {
        // One round trip: pushes wait for the sum of the sizes until this change ends.
        const isGone = yield* together(
          orphans.map(({ repositoryId, digest }) =>
            removeOrphan.hasChanged(repositoryId, digest, linkedBefore),
          ),
        );
        return orphans.filter((_, at) => isGone[at]);
      }),
    redate: ({ repositoryId, digest }, at) =>
      database.commit(() => redate.run(at, repositoryId, digest)),
    async *removeEmpty(signal) {
      let afterId = 0;
      const next = async (limit: number) => {
        const found = await database.read(someRepositories.all(afterId, limit));
        afterId = found.at(-1)?.id ?? afterId;
        return found;
      };
      for await (const { id, name, isUsed } of eachRow(next, signal)) {
        if (isUsed === 1) continue;
        const removed = await database.commit(() => removeIfEmpty.changes(id));
        if (removed > 0) yield name;
      }
    },
  };
}

/** Removes parts of images within a transaction. */
interface ImageRemoval {
  /** Removes a manifest and its tags; false when there was none. */
  removeManifest(repository: string, digest: Digest): Call<boolean>;
  removeTag(repository: string, tag: string): Call<boolean>;
  /**
   * Removes the tag if it refers to the image. Removes the image too unless it has another tag, with everything that
   * exists for it alone: the images of an index, and the manifests with the image as their subject.
   */
  removeImage(image: HostedImage): Call<void>;
}

export function createImageRemoval(database: RowDatabase, queries: HostedQueries): ImageRemoval {
  const sql = (text: string) => database.sql(text);
  const removal = [
    sql(`DELETE FROM hosted_tags WHERE ${inRepository} AND digest = ?`),
    sql(`DELETE FROM hosted_parts WHERE ${inRepository} AND manifest = ?`),
    sql(`DELETE FROM hosted_manifests WHERE ${inRepository} AND digest = ?`),
  ];
  const removeTagRow = sql(`DELETE FROM hosted_tags WHERE ${inRepository} AND name = ?`);

  function* removeManifest(repository: string, digest: Digest) {
    let removed = 0;
    for (const statement of removal) removed = yield* statement.changes(repository, digest);
    return removed > 0;
  }
  function* removeTag(repository: string, tag: string) {
    return yield* removeTagRow.hasChanged(repository, tag);
  }

  /** Removes a manifest that no tag and no index names, and then the manifests that it named. */
  function* removeUnneeded(repository: string, digest: Digest): RowsWork<void> {
    const isNamed =
      (yield* queries.isTagged(repository, digest)) ?? (yield* queries.needs(repository, digest));
    if (isNamed !== undefined || !(yield* queries.manifest(repository, digest))) return;
    const parts = yield* queries.partsOf(repository, digest);
    yield* removeManifest(repository, digest);
    for (const part of parts) yield* removeUnneeded(repository, part);
    for (const referrer of yield* queries.referrers(repository, digest, '', mostReferrers)) {
      yield* removeUnneeded(repository, referrer.digest);
    }
  }

  return {
    removeManifest,
    removeTag,
    *removeImage({ repository, tag, digest }) {
      if ((yield* queries.tagged(repository, tag)) === digest) yield* removeTag(repository, tag);
      yield* removeUnneeded(repository, digest);
    },
  };
}
