import type { Digest } from '../../../oci/digest.ts';
import type { Database } from '../database.ts';
import { isHeldSql } from '../images/content-rows.ts';
import type { HostedManifest, HostedReferrer, ListedManifest } from './hosted-store.ts';

const manifestColumns =
  'm.digest, m.media_type AS mediaType, m.size, m.subject, m.artifact_type AS artifactType, m.annotations';
/** Condition for a row that is in the repository with a name. */
export const inRepository = 'repository = (SELECT id FROM repositories WHERE name = ?)';

/** Reads of single repositories, for use within transactions. */
export type HostedQueries = ReturnType<typeof createHostedQueries>;

export function createHostedQueries(database: Database) {
  const sql = (text: string) => database.prepare(text);
  const repositoryId = sql('SELECT id FROM repositories WHERE name = ?').pluck();
  const hasRepository = sql(
    `SELECT 1 FROM repositories r WHERE name = ? AND (
       EXISTS (SELECT 1 FROM hosted_blobs WHERE repository = r.id) OR
       EXISTS (SELECT 1 FROM hosted_manifests WHERE repository = r.id))`,
  ).pluck();
  const repositories = sql(
    `SELECT name FROM repositories r WHERE name > ? AND (
       EXISTS (SELECT 1 FROM hosted_blobs WHERE repository = r.id) OR
       EXISTS (SELECT 1 FROM hosted_manifests WHERE repository = r.id))
     ORDER BY name LIMIT ?`,
  ).pluck();
  const manifest = sql(
    `SELECT ${manifestColumns} FROM hosted_manifests m WHERE ${inRepository} AND digest = ?`,
  );
  const manifestsOf = sql(
    `SELECT digest, subject IS NULL
       AND NOT EXISTS (SELECT 1 FROM hosted_tags t WHERE t.repository = m.repository AND t.digest = m.digest)
       AND NOT EXISTS (SELECT 1 FROM hosted_parts p WHERE p.repository = m.repository AND p.part = m.digest)
       AS isUntagged
     FROM hosted_manifests m WHERE ${inRepository} AND digest > ? ORDER BY digest LIMIT ?`,
  );
  const referrers = sql(
    `SELECT digest, artifact_type AS artifactType FROM hosted_manifests
     WHERE ${inRepository} AND subject = ? AND digest > ? ORDER BY digest LIMIT ?`,
  );
  const tagged = sql(`SELECT digest FROM hosted_tags WHERE ${inRepository} AND name = ?`).pluck();
  const isTagged = sql(`SELECT 1 FROM hosted_tags WHERE ${inRepository} AND digest = ? LIMIT 1`);
  const partsOf = sql(
    `SELECT part FROM hosted_parts WHERE ${inRepository} AND manifest = ?`,
  ).pluck();
  const tags = sql(
    `SELECT name FROM hosted_tags WHERE ${inRepository} AND name > ? ORDER BY name LIMIT ?`,
  ).pluck();
  const tagsOf = sql(
    `SELECT name FROM hosted_tags WHERE ${inRepository} AND digest = ? ORDER BY name LIMIT ?`,
  ).pluck();
  const soleParts = sql(
    `SELECT part FROM hosted_parts AS p WHERE ${inRepository} AND manifest = ? AND NOT EXISTS
       (SELECT 1 FROM hosted_parts o
        WHERE o.repository = p.repository AND o.part = p.part AND o.manifest <> p.manifest)`,
  ).pluck();
  const blobSize = sql(
    `SELECT size FROM hosted_blobs WHERE ${inRepository} AND digest = ?`,
  ).pluck();
  const holders = sql(
    'SELECT name FROM hosted_blobs b JOIN repositories r ON r.id = b.repository WHERE digest = ? LIMIT ?',
  ).pluck();
  const needs = sql(
    `SELECT manifest FROM hosted_parts WHERE ${inRepository} AND part = ? LIMIT 1`,
  ).pluck();
  const repositoryBytes = sql('SELECT bytes FROM repositories WHERE name = ?').pluck();
  const bytesBelow = sql(
    `SELECT SUM(bytes) FROM repositories
     WHERE name = @name OR (name >= @name || '/' AND name < @name || '0')`,
  ).pluck();
  const totalBytes = sql("SELECT value FROM sums WHERE name = 'hosted bytes'").pluck();
  const isHeld = sql(isHeldSql).pluck();

  return {
    repositoryId: (repository: string) => repositoryId.get(repository) as number | undefined,
    hasRepository: (repository: string) => hasRepository.get(repository) !== undefined,
    repositories: (after: string, limit: number) => repositories.all(after, limit) as string[],
    manifest: (repository: string, digest: Digest) =>
      manifest.get(repository, digest) as HostedManifest | undefined,
    manifestsOf: (repository: string, after: string, limit: number): ListedManifest[] =>
      (
        manifestsOf.all(repository, after, limit) as Array<{ digest: Digest; isUntagged: number }>
      ).map(({ digest, isUntagged }) => ({ digest, isUntagged: isUntagged === 1 })),
    referrers: (repository: string, subject: Digest, after: string, limit: number) =>
      referrers.all(repository, subject, after, limit) as HostedReferrer[],
    tagged: (repository: string, tag: string) => tagged.get(repository, tag) as Digest | undefined,
    isTagged: (repository: string, digest: Digest) =>
      isTagged.get(repository, digest) !== undefined,
    partsOf: (repository: string, digest: Digest) => partsOf.all(repository, digest) as Digest[],
    tags: (repository: string, after: string, limit: number) =>
      tags.all(repository, after, limit) as string[],
    tagsOf: (repository: string, digest: Digest, limit: number) =>
      tagsOf.all(repository, digest, limit) as string[],
    soleParts: (repository: string, digest: Digest) =>
      soleParts.all(repository, digest) as Digest[],
    blobSize: (repository: string, digest: Digest) =>
      blobSize.get(repository, digest) as number | undefined,
    holdersOf: (digest: Digest, limit: number) => holders.all(digest, limit) as string[],
    /** Returns a manifest of the repository that refers to the content. */
    needs: (repository: string, part: Digest) => needs.get(repository, part) as Digest | undefined,
    repositoryBytes: (repository: string) => Number(repositoryBytes.get(repository) ?? 0),
    bytesBelow: (name: string) => Number(bytesBelow.get({ name }) ?? 0),
    totalBytes: () => Number(totalBytes.get()),
    isHeld: (digest: Digest) => isHeld.get({ digest }) === 1,
  };
}
