import type { Digest } from '../../../oci/digest.ts';
import type { Database } from '../database.ts';
import { inSmallSteps } from '../small-steps.ts';
import { type HostedQueries, inRepository } from './hosted-queries.ts';
import type { BlobRemoval, HostedImage, HostedRemovals } from './hosted-store.ts';

// Referrers of an image that is deleted: a lock file, and the user's attachments.
const mostReferrers = 100;

export function createHostedRemovals(database: Database, queries: HostedQueries): HostedRemovals {
  const sql = (text: string) => database.prepare(text);
  const { removeManifest, removeTag } = createImageRemoval(database, queries);
  const removeTags = sql(
    `DELETE FROM hosted_tags WHERE repository = @id AND name IN
     (SELECT name FROM hosted_tags WHERE repository = @id LIMIT @limit)`,
  );
  const someManifests = sql(
    `SELECT digest FROM hosted_manifests WHERE ${inRepository} LIMIT ?`,
  ).pluck();
  const removeIfEmpty = sql(
    `DELETE FROM repositories AS r WHERE id = ?
     AND NOT EXISTS (SELECT 1 FROM hosted_blobs WHERE repository = r.id)
     AND NOT EXISTS (SELECT 1 FROM hosted_manifests WHERE repository = r.id)
     AND NOT EXISTS (SELECT 1 FROM hosted_parts WHERE repository = r.id)
     AND NOT EXISTS (SELECT 1 FROM hosted_tags WHERE repository = r.id)`,
  );
  const someRepositories = sql(
    'SELECT id FROM repositories WHERE id > ? ORDER BY id LIMIT ?',
  ).pluck();
  const removeBlob = sql(`DELETE FROM hosted_blobs WHERE ${inRepository} AND digest = ?`);
  const removeOrphan = sql(
    `DELETE FROM hosted_blobs AS b WHERE repository = ? AND digest = ? AND linked_at < ?
     AND NOT EXISTS (SELECT 1 FROM hosted_parts p WHERE p.repository = b.repository AND p.part = b.digest)`,
  );
  const redate = sql('UPDATE hosted_blobs SET linked_at = ? WHERE repository = ? AND digest = ?');

  const removeUnneededBlob = (repository: string, digest: Digest): BlobRemoval => {
    const manifest = queries.needs(repository, digest);
    if (manifest !== undefined) return { kind: 'needed', manifest };
    const isRemoved = removeBlob.run(repository, digest).changes > 0;
    return { kind: isRemoved ? 'removed' : 'unknown' };
  };

  const removeSome = (repository: string, limit: number): number => {
    const id = queries.repositoryId(repository) ?? 0;
    let removed = removeTags.run({ id, limit }).changes;
    if (removed === limit) return removed;
    const digests = someManifests.all(repository, limit - removed) as Digest[];
    for (const digest of digests) removeManifest(repository, digest);
    removed += digests.length;
    if (removed < limit) removeIfEmpty.run(id);
    return removed;
  };

  return {
    removeManifest: (repository, digest) =>
      database.write(() => removeManifest(repository, digest)),
    removeTag: (repository, tag) => database.write(() => removeTag(repository, tag)),
    removeBlob: (repository, digest) =>
      database.write(() => removeUnneededBlob(repository, digest)),
    async removeManifests(repository) {
      await inSmallSteps(database, limit => removeSome(repository, limit));
    },
    removeOrphans: (orphans, linkedBefore) =>
      database.commit(() =>
        orphans.filter(
          ({ repositoryId, digest }) =>
            removeOrphan.run(repositoryId, digest, linkedBefore).changes > 0,
        ),
      ),
    redate: ({ repositoryId, digest }, at) =>
      database.commit(() => void redate.run(at, repositoryId, digest)),
    async removeEmpty(signal) {
      let afterId = 0;
      await inSmallSteps(
        database,
        limit => {
          const ids = someRepositories.all(afterId, limit) as number[];
          for (const id of ids) removeIfEmpty.run(id);
          afterId = ids.at(-1) ?? afterId;
          return ids.length;
        },
        signal,
      );
    },
  };
}

/** Removes parts of images within a transaction. */
export interface ImageRemoval {
  /** Removes a manifest and its tags; false when there was none. */
  removeManifest(repository: string, digest: Digest): boolean;
  removeTag(repository: string, tag: string): boolean;
  /**
   * Removes the tag if it refers to the image. Removes the image too unless it has another tag, with everything that
   * exists for it alone: the images of an index, and the manifests with the image as their subject.
   */
  removeImage(image: HostedImage): void;
}

export function createImageRemoval(database: Database, queries: HostedQueries): ImageRemoval {
  const sql = (text: string) => database.prepare(text);
  const removal = [
    sql(`DELETE FROM hosted_tags WHERE ${inRepository} AND digest = ?`),
    sql(`DELETE FROM hosted_parts WHERE ${inRepository} AND manifest = ?`),
    sql(`DELETE FROM hosted_manifests WHERE ${inRepository} AND digest = ?`),
  ];
  const removeTagRow = sql(`DELETE FROM hosted_tags WHERE ${inRepository} AND name = ?`);

  const removeManifest = (repository: string, digest: Digest): boolean => {
    let removed = 0;
    for (const statement of removal) removed = statement.run(repository, digest).changes;
    return removed > 0;
  };
  const removeTag = (repository: string, tag: string) =>
    removeTagRow.run(repository, tag).changes > 0;

  /** Removes a manifest that no tag and no index names, and then the manifests that it named. */
  const removeUnneeded = (repository: string, digest: Digest): void => {
    const isNamed = queries.isTagged(repository, digest) || queries.needs(repository, digest);
    if (isNamed || !queries.manifest(repository, digest)) return;
    const parts = queries.partsOf(repository, digest);
    removeManifest(repository, digest);
    for (const part of parts) removeUnneeded(repository, part);
    for (const referrer of queries.referrers(repository, digest, '', mostReferrers)) {
      removeUnneeded(repository, referrer.digest);
    }
  };

  return {
    removeManifest,
    removeTag,
    removeImage({ repository, tag, digest }) {
      if (queries.tagged(repository, tag) === digest) removeTag(repository, tag);
      removeUnneeded(repository, digest);
    },
  };
}
