import type { Digest } from '../../../oci/digest.ts';
import type { Database } from '../database.ts';
import { inSmallSteps } from '../small-steps.ts';

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

/** A manifest that has a subject, without its annotations, which may be long. */
export type HostedReferrer = Pick<HostedManifest, 'digest' | 'artifactType'>;

/** What belongs to which hosted repository; the bytes are in the content store. Repositories come to be with what is put into them. */
export interface HostedStore {
  /**
   * Runs the work as one transaction that nobody else writes in between; what it throws undoes it.
   * Resolves when the change would survive a power failure.
   */
  atomically<T>(work: () => T): Promise<T>;
  /** The same for housekeeping, which does not wait for the disk. */
  tidily<T>(work: () => T): Promise<T>;
  /** Resolves when everything that was changed before would survive a power failure. */
  settle(): Promise<void>;

  hasRepository(repository: string): boolean;
  putManifest(repository: string, manifest: HostedManifest, parts: readonly Digest[]): void;
  manifest(repository: string, digest: Digest): HostedManifest | undefined;
  /** Removes it with its tags; false when there was none. */
  removeManifest(repository: string, digest: Digest): boolean;
  /** Removes all tags and manifests of a repository, a few at a time, and the repository once it is empty. */
  removeManifests(repository: string): Promise<void>;
  /** The manifests of a subject after a digest, by digest. */
  referrers(repository: string, subject: Digest, after: string, limit: number): HostedReferrer[];

  putTag(repository: string, tag: string, digest: Digest): void;
  tagged(repository: string, tag: string): Digest | undefined;
  /** True when a tag stands for the manifest. */
  isTagged(repository: string, digest: Digest): boolean;
  removeTag(repository: string, tag: string): boolean;
  /** Tags after a name, in the order of their bytes. */
  tags(repository: string, after: string, limit: number): string[];

  putBlob(repository: string, digest: Digest, size: number, at: number): void;
  /** Size in bytes, undefined when the repository does not have it. */
  blobSize(repository: string, digest: Digest): number | undefined;
  removeBlob(repository: string, digest: Digest): boolean;
  /** Up to so many of the repositories that have the blob. */
  holdersOf(digest: Digest, limit: number): string[];
  /** A manifest of the repository that refers to the content. */
  needs(repository: string, part: Digest): Digest | undefined;
  /** What a manifest of the repository refers to. */
  partsOf(repository: string, manifest: Digest): Digest[];

  /** Bytes of all blobs and manifests of a repository. */
  repositoryBytes(repository: string): number;
  /** Bytes of a repository and of those below it; what several of them have counts for each. */
  bytesBelow(repository: string): number;
  /** Bytes of all hosted content, each counted once. */
  totalBytes(): number;

  /** True when a repository has it, as a blob or as a manifest. */
  isHeld(digest: Digest): boolean;
  /** As {@link isHeld}, but the orphans that were put there before the moment do not count. */
  isNeeded(digest: Digest, linkedBefore: number): boolean;
  /** Blobs, or manifests, of all repositories: so many at most after a place in their order. */
  blobsAfter(place: HostedPlace, limit: number): HostedRow[];
  manifestsAfter(place: HostedPlace, limit: number): HostedRow[];
  /** The same blobs, with whether a manifest needs them. */
  loneBlobsAfter(place: HostedPlace, limit: number): PossibleOrphan[];
  /** Removes an orphan from its repository, unless it is referred to again; true when it did. */
  removeOrphan(orphan: HostedRow, linkedBefore: number): boolean;
  /** Counts a blob as put into its repository at the moment. */
  redate(row: HostedRow, at: number): void;
  /** Removes empty repositories, a few at a time. */
  removeEmpty(signal?: AbortSignal): Promise<void>;
}

export interface HostedContent {
  readonly repository: string;
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
}

/** A place in the order of all hosted content: by repository, then by digest. */
export interface HostedPlace {
  readonly repositoryId: number;
  readonly digest: string;
}

/** The place before everything. */
export const firstPlace: HostedPlace = { repositoryId: 0, digest: '' };

export interface HostedRow extends HostedContent, HostedPlace {
  readonly digest: Digest;
}

export interface PossibleOrphan extends HostedRow {
  /** No manifest of the repository refers to it. */
  readonly isLone: boolean;
  /** ms since the epoch */
  readonly linkedAt: number;
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
    // No REPLACE: that would remove a row without the trigger that takes its bytes off the sums.
    `INSERT INTO hosted_manifests
     (repository, digest, media_type, size, subject, artifact_type, annotations) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (repository, digest) DO UPDATE SET media_type = excluded.media_type,
       subject = excluded.subject, artifact_type = excluded.artifact_type, annotations = excluded.annotations`,
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
  const referrers = sql(
    `SELECT digest, artifact_type AS artifactType FROM hosted_manifests
     WHERE ${inRepository} AND subject = ? AND digest > ? ORDER BY digest LIMIT ?`,
  );
  const putTag = sql(
    'INSERT OR REPLACE INTO hosted_tags (repository, name, digest) VALUES (?, ?, ?)',
  );
  const tagged = sql(`SELECT digest FROM hosted_tags WHERE ${inRepository} AND name = ?`).pluck();
  const isTagged = sql(`SELECT 1 FROM hosted_tags WHERE ${inRepository} AND digest = ? LIMIT 1`);
  const partsOf = sql(
    `SELECT part FROM hosted_parts WHERE ${inRepository} AND manifest = ?`,
  ).pluck();
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
    'SELECT name FROM hosted_blobs b JOIN repositories r ON r.id = b.repository WHERE digest = ? LIMIT ?',
  ).pluck();
  const needs = sql(
    `SELECT manifest FROM hosted_parts WHERE ${inRepository} AND part = ? LIMIT 1`,
  ).pluck();
  // Both are kept by triggers.
  const repositoryBytes = sql('SELECT bytes FROM repositories WHERE name = ?').pluck();
  const bytesBelow = sql(
    `SELECT SUM(bytes) FROM repositories
     WHERE name = @name OR (name >= @name || '/' AND name < @name || '0')`,
  ).pluck();
  const totalBytes = sql("SELECT value FROM sums WHERE name = 'hosted bytes'").pluck();
  const isHeld = sql(
    `SELECT EXISTS (SELECT 1 FROM hosted_blobs WHERE digest = @digest)
         OR EXISTS (SELECT 1 FROM hosted_manifests WHERE digest = @digest)`,
  ).pluck();
  const isPart = `EXISTS
    (SELECT 1 FROM hosted_parts p WHERE p.repository = b.repository AND p.part = b.digest)`;
  const isNeeded = sql(
    `SELECT EXISTS (SELECT 1 FROM hosted_manifests WHERE digest = @digest)
         OR EXISTS (SELECT 1 FROM hosted_blobs b WHERE digest = @digest
                    AND (linked_at >= @linkedBefore OR ${isPart}))`,
  ).pluck();
  const rowsAfter = (table: string, more = '') =>
    sql(
      `SELECT c.repository AS repositoryId, r.name AS repository, c.digest, c.size${more}
       FROM ${table} c JOIN repositories r ON r.id = c.repository
       WHERE (c.repository, c.digest) > (@repositoryId, @digest)
       ORDER BY c.repository, c.digest LIMIT @limit`,
    );
  const blobsAfter = rowsAfter('hosted_blobs');
  const manifestsAfter = rowsAfter('hosted_manifests');
  const datedAfter = rowsAfter(
    'hosted_blobs',
    `, c.linked_at AS linkedAt, EXISTS
       (SELECT 1 FROM hosted_parts p WHERE p.repository = c.repository AND p.part = c.digest) AS isPart`,
  );
  const removeOrphan = sql(
    `DELETE FROM hosted_blobs AS b
     WHERE repository = ? AND digest = ? AND linked_at < ? AND NOT ${isPart}`,
  );
  const redate = sql('UPDATE hosted_blobs SET linked_at = ? WHERE repository = ? AND digest = ?');

  const removeSome = (repository: string, limit: number): number => {
    const id = Number(repositoryId.get(repository) ?? 0);
    let removed = removeTags.run({ id, limit }).changes;
    if (removed === limit) return removed;
    const digests = someManifests.all(repository, limit - removed) as Digest[];
    for (const digest of digests)
      for (const statement of removal) statement.run(repository, digest);
    removed += digests.length;
    if (removed < limit) removeIfEmpty.run(id);
    return removed;
  };

  const idOf = (repository: string): number => {
    addRepository.run(repository);
    return Number(repositoryId.get(repository));
  };

  return {
    atomically: work => database.write(work),
    tidily: work => database.commit(work),
    settle: () => database.settle(),

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
    async removeManifests(repository) {
      await inSmallSteps(database, limit => removeSome(repository, limit));
    },
    referrers: (repository, subject, after, limit) =>
      referrers.all(repository, subject, after, limit) as HostedReferrer[],

    putTag(repository, tag, digest) {
      putTag.run(idOf(repository), tag, digest);
    },
    tagged: (repository, tag) => tagged.get(repository, tag) as Digest | undefined,
    isTagged: (repository, digest) => isTagged.get(repository, digest) !== undefined,
    partsOf: (repository, manifest) => partsOf.all(repository, manifest) as Digest[],
    removeTag: (repository, tag) => removeTag.run(repository, tag).changes > 0,
    tags: (repository, after, limit) => tags.all(repository, after, limit) as string[],

    putBlob(repository, digest, size, at) {
      putBlob.run(idOf(repository), digest, size, at);
    },
    blobSize: (repository, digest) => blobSize.get(repository, digest) as number | undefined,
    removeBlob: (repository, digest) => removeBlob.run(repository, digest).changes > 0,
    holdersOf: (digest, limit) => holders.all(digest, limit) as string[],
    needs: (repository, part) => needs.get(repository, part) as Digest | undefined,

    repositoryBytes: repository => Number(repositoryBytes.get(repository) ?? 0),
    bytesBelow: name => Number(bytesBelow.get({ name }) ?? 0),
    totalBytes: () => Number(totalBytes.get()),

    isHeld: digest => isHeld.get({ digest }) === 1,
    isNeeded: (digest, linkedBefore) => isNeeded.get({ digest, linkedBefore }) === 1,
    blobsAfter: (place, limit) => blobsAfter.all({ ...place, limit }) as HostedRow[],
    manifestsAfter: (place, limit) => manifestsAfter.all({ ...place, limit }) as HostedRow[],
    loneBlobsAfter: (place, limit) =>
      (datedAfter.all({ ...place, limit }) as DatedRow[]).map(({ isPart, ...row }) => ({
        ...row,
        isLone: isPart === 0,
      })),
    redate({ repositoryId, digest }, at) {
      redate.run(at, repositoryId, digest);
    },
    removeOrphan: ({ repositoryId, digest }, linkedBefore) =>
      removeOrphan.run(repositoryId, digest, linkedBefore).changes > 0,
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

type DatedRow = HostedRow & { readonly linkedAt: number; readonly isPart: number };
