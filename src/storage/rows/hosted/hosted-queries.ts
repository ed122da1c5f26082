import type { Digest } from '../../../oci/digest.ts';
import { isThere } from '../driver/is-there.ts';
import type { RowDatabase } from '../driver/row-database.ts';
import { isHeldSql } from '../images/content-rows.ts';
import type { HostedManifest, HostedReferrer } from './hosted-store.ts';
import { isPartOfManifest } from './part-of-manifest.ts';

const manifestColumns =
  'm.digest, m.media_type AS mediaType, m.size, m.subject, m.artifact_type AS artifactType, m.annotations';
/** Condition for a row that is in the repository with a name. */
export const inRepository = 'repository = (SELECT id FROM repositories WHERE name = ?)';
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
