import type { Digest } from '../oci/digest.ts';
import type { Database } from './database.ts';

/** A manifest of a hosted repository. The last three members are what a list of referrers tells of it. */
export interface HostedManifest {
  readonly digest: Digest;
  readonly mediaType: string;
  /** Bytes. */
  readonly size: number;
  readonly subject: Digest | null;
  readonly artifactType: string | null;
  /** JSON text. */
  readonly annotations: string | null;
}

/** What belongs to which hosted repository; the bytes are in the content store. Repositories come to be with what is put into them. */
export interface HostedStore {
  /** Runs the work as one transaction that nobody else writes in between; what it throws undoes it. */
  atomically<T>(work: () => T): T;

  hasRepository(repository: string): boolean;
  putManifest(repository: string, manifest: HostedManifest, parts: readonly Digest[]): void;
  manifest(repository: string, digest: Digest): HostedManifest | undefined;
  /** Removes it with its tags; false when there was none. */
  removeManifest(repository: string, digest: Digest): boolean;
  /** Removes all of a repository, with their tags. */
  removeManifests(repository: string): void;
  /** The manifests of a subject after a digest, by digest. */
  referrers(repository: string, subject: Digest, after: string, limit: number): HostedManifest[];

  putTag(repository: string, tag: string, digest: Digest): void;
  tagged(repository: string, tag: string): Digest | undefined;
  removeTag(repository: string, tag: string): boolean;
  /** Tags after a name, in the order of their bytes. */
  tags(repository: string, after: string, limit: number): string[];

  putBlob(repository: string, digest: Digest, size: number, at: number): void;
  /** Size in bytes, undefined when the repository does not have it. */
  blobSize(repository: string, digest: Digest): number | undefined;
  removeBlob(repository: string, digest: Digest): boolean;
  /** The repositories that have the blob. */
  holdersOf(digest: Digest): string[];
  /** A manifest of the repository that refers to the content. */
  needs(repository: string, part: Digest): Digest | undefined;

  /** Bytes of all blobs and manifests of a repository. */
  repositoryBytes(repository: string): number;
  /** Bytes of all hosted content, each counted once. */
  totalBytes(): number;

  /** How often repositories have it, as a blob or as a manifest. */
  holderCount(digest: Digest): number;
  /** Every blob and manifest of every repository. */
  all(): HostedContent[];
  /** Blobs that no manifest of their repository refers to and that were put there before the moment. */
  orphans(linkedBefore: number): HostedContent[];
}

export interface HostedContent {
  readonly repository: string;
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
}

const manifestColumns =
  'm.digest, m.media_type AS mediaType, m.size, m.subject, m.artifact_type AS artifactType, m.annotations';
const inRepository = 'repository = (SELECT id FROM repositories WHERE name = ?)';

export function createHostedStore(database: Database): HostedStore {
  const sql = (text: string) => database.prepare(text);
  const addRepository = sql('INSERT OR IGNORE INTO repositories (name) VALUES (?)');
  const repositoryId = sql('SELECT id FROM repositories WHERE name = ?').pluck();
  const hasRepository = sql(
    `SELECT 1 FROM repositories r WHERE name = ? AND (
       EXISTS (SELECT 1 FROM hosted_blobs WHERE repository = r.id) OR
       EXISTS (SELECT 1 FROM hosted_manifests WHERE repository = r.id))`,
  ).pluck();
  const putManifest = sql(
    `INSERT OR REPLACE INTO hosted_manifests
     (repository, digest, media_type, size, subject, artifact_type, annotations) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const putPart = sql(
    'INSERT OR IGNORE INTO hosted_parts (repository, manifest, part) VALUES (?, ?, ?)',
  );
  const manifest = sql(
    `SELECT ${manifestColumns} FROM hosted_manifests m WHERE ${inRepository} AND digest = ?`,
  );
  const removal = [
    sql(`DELETE FROM hosted_tags WHERE ${inRepository} AND digest = ?`),
    sql(`DELETE FROM hosted_parts WHERE ${inRepository} AND manifest = ?`),
    sql(`DELETE FROM hosted_manifests WHERE ${inRepository} AND digest = ?`),
  ];
  const removalOfAll = ['hosted_tags', 'hosted_parts', 'hosted_manifests'].map(table =>
    sql(`DELETE FROM ${table} WHERE ${inRepository}`),
  );
  const referrers = sql(
    `SELECT ${manifestColumns} FROM hosted_manifests m
     WHERE ${inRepository} AND subject = ? AND digest > ? ORDER BY digest LIMIT ?`,
  );
  const putTag = sql(
    'INSERT OR REPLACE INTO hosted_tags (repository, name, digest) VALUES (?, ?, ?)',
  );
  const tagged = sql(`SELECT digest FROM hosted_tags WHERE ${inRepository} AND name = ?`).pluck();
  const removeTag = sql(`DELETE FROM hosted_tags WHERE ${inRepository} AND name = ?`);
  const tags = sql(
    `SELECT name FROM hosted_tags WHERE ${inRepository} AND name > ? ORDER BY name LIMIT ?`,
  ).pluck();
  const putBlob = sql(
    `INSERT INTO hosted_blobs (repository, digest, size, linked_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (repository, digest) DO UPDATE SET linked_at = excluded.linked_at`,
  );
  const blobSize = sql(
    `SELECT size FROM hosted_blobs WHERE ${inRepository} AND digest = ?`,
  ).pluck();
  const removeBlob = sql(`DELETE FROM hosted_blobs WHERE ${inRepository} AND digest = ?`);
  const holders = sql(
    'SELECT name FROM hosted_blobs b JOIN repositories r ON r.id = b.repository WHERE digest = ?',
  ).pluck();
  const needs = sql(
    `SELECT manifest FROM hosted_parts WHERE ${inRepository} AND part = ? LIMIT 1`,
  ).pluck();
  const repositoryBytes = sql(
    `SELECT (SELECT COALESCE(SUM(size), 0) FROM hosted_blobs WHERE repository = r.id) +
            (SELECT COALESCE(SUM(size), 0) FROM hosted_manifests WHERE repository = r.id)
     FROM repositories r WHERE name = ?`,
  ).pluck();
  const totalBytes = sql(
    `SELECT COALESCE(SUM(size), 0) FROM
     (SELECT digest, size FROM hosted_blobs UNION SELECT digest, size FROM hosted_manifests)`,
  ).pluck();
  const holderCount = sql(
    `SELECT (SELECT COUNT(*) FROM hosted_blobs WHERE digest = @digest) +
            (SELECT COUNT(*) FROM hosted_manifests WHERE digest = @digest)`,
  ).pluck();
  const all = sql(
    `SELECT r.name AS repository, digest, size FROM repositories r JOIN
     (SELECT repository, digest, size FROM hosted_blobs
      UNION SELECT repository, digest, size FROM hosted_manifests) c ON r.id = c.repository
     ORDER BY r.name, digest`,
  );
  const orphans = sql(
    `SELECT r.name AS repository, b.digest, b.size FROM hosted_blobs b JOIN repositories r ON r.id = b.repository
     WHERE b.linked_at < ? AND NOT EXISTS
       (SELECT 1 FROM hosted_parts p WHERE p.repository = b.repository AND p.part = b.digest)`,
  );
  const atomically = database.transaction((work: () => unknown) => work());

  const idOf = (repository: string): number => {
    addRepository.run(repository);
    return Number(repositoryId.get(repository));
  };

  return {
    atomically: <T>(work: () => T) => atomically.immediate(work) as T,

    hasRepository: repository => hasRepository.get(repository) !== undefined,
    putManifest(repository, row, parts) {
      const id = idOf(repository);
      const { digest, mediaType, size, subject, artifactType, annotations } = row;
      putManifest.run(id, digest, mediaType, size, subject, artifactType, annotations);
      for (const part of parts) putPart.run(id, digest, part);
    },
    manifest: (repository, digest) =>
      manifest.get(repository, digest) as HostedManifest | undefined,
    removeManifest(repository, digest) {
      let removed = 0;
      for (const statement of removal) removed = statement.run(repository, digest).changes;
      return removed > 0;
    },
    removeManifests(repository) {
      for (const statement of removalOfAll) statement.run(repository);
    },
    referrers: (repository, subject, after, limit) =>
      referrers.all(repository, subject, after, limit) as HostedManifest[],

    putTag(repository, tag, digest) {
      putTag.run(idOf(repository), tag, digest);
    },
    tagged: (repository, tag) => tagged.get(repository, tag) as Digest | undefined,
    removeTag: (repository, tag) => removeTag.run(repository, tag).changes > 0,
    tags: (repository, after, limit) => tags.all(repository, after, limit) as string[],

    putBlob(repository, digest, size, at) {
      putBlob.run(idOf(repository), digest, size, at);
    },
    blobSize: (repository, digest) => blobSize.get(repository, digest) as number | undefined,
    removeBlob: (repository, digest) => removeBlob.run(repository, digest).changes > 0,
    holdersOf: digest => holders.all(digest) as string[],
    needs: (repository, part) => needs.get(repository, part) as Digest | undefined,

    repositoryBytes: repository => Number(repositoryBytes.get(repository) ?? 0),
    totalBytes: () => Number(totalBytes.get()),

    holderCount: digest => Number(holderCount.get({ digest })),
    all: () => all.all() as HostedContent[],
    orphans: linkedBefore => orphans.all(linkedBefore) as HostedContent[],
  };
}
