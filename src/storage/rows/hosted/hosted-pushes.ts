import type { Digest } from '../../../oci/digest.ts';
import type { RowDatabase, RowsWork } from '../driver/row-database.ts';
import { atLast, together } from '../driver/together.ts';
import { claimSql } from '../images/content-rows.ts';
import type { HostedQueries } from './hosted-queries.ts';
import type {
  BlobPush,
  BlobRefusal,
  HostedLimit,
  HostedLimits,
  HostedPushes,
  ManifestPush,
  ManifestPushed,
} from './hosted-store.ts';

export function createHostedPushes(database: RowDatabase, queries: HostedQueries): HostedPushes {
  const sql = (text: string) => database.sql(text);
  const addRepository = sql('INSERT INTO repositories (name) VALUES (?) ON CONFLICT DO NOTHING');
  const putManifest = sql(
    `INSERT INTO hosted_manifests
     (repository, digest, media_type, size, subject, artifact_type, annotations) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (repository, digest) DO UPDATE SET media_type = excluded.media_type,
       subject = excluded.subject, artifact_type = excluded.artifact_type, annotations = excluded.annotations`,
  );
  const putPart = sql(
    'INSERT INTO hosted_parts (repository, manifest, part) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const putTag = sql(
    `INSERT INTO hosted_tags (repository, name, digest) VALUES (?, ?, ?)
     ON CONFLICT (repository, name) DO UPDATE SET digest = excluded.digest`,
  );
  const putBlob = sql(
    `INSERT INTO hosted_blobs (repository, digest, size, linked_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (repository, digest) DO UPDATE SET linked_at = excluded.linked_at`,
  );
  const forgetCopy = sql('DELETE FROM cached_blobs WHERE digest = ?');
  const claimContent = sql(claimSql);

  /** Returns the id of the repository. One that exists costs no round trip more. */
  function* idOf(repository: string, known: number | undefined): RowsWork<number> {
    if (known !== undefined) return known;
    const [, id] = yield* together([
      addRepository.run(repository),
      queries.repositoryId(repository),
    ]);
    return Number(id);
  }

  function* limitFor(
    repository: string,
    digest: Digest,
    size: number,
    { maxBlobBytes, maxRepositoryBytes, maxTotalBytes }: HostedLimits,
  ): RowsWork<HostedLimit | undefined> {
    const isOver = (bytes: number, limit: number | undefined) =>
      limit !== undefined && bytes > limit;
    if (isOver(size, maxBlobBytes)) return 'maxBlobBytes';
    if (maxRepositoryBytes === undefined && maxTotalBytes === undefined) return undefined;
    const [bytes, isHeld, total] = yield* together([
      queries.repositoryBytes(repository),
      queries.isHeld({ digest }),
      queries.totalBytes(),
    ]);
    if (isOver(Number(bytes ?? 0) + size, maxRepositoryBytes)) return 'maxRepositoryBytes';
    // Content that another repository has takes no additional space.
    if (isHeld === 1) return undefined;
    return isOver(Number(total) + size, maxTotalBytes) ? 'maxTotalBytes' : undefined;
  }

  /**
   * Counts content as used, and reads what decides about a push of it. A push that is refused has this use as its only
   * effect.
   */
  const ask = (repository: string, digest: Digest, size: number, limits: HostedLimits) =>
    together([
      queries.repositoryId(repository),
      limitFor(repository, digest, size, limits),
      claimContent.hasChanged({ digest, at: Date.now() }),
    ]);

  /** Returns why the parts of a manifest prevent a push; undefined when they do not. */
  function* missingPart({
    repository,
    blobs,
    manifests,
  }: ManifestPush): RowsWork<ManifestPushed | undefined> {
    const [sizes, known, others] = yield* together([
      together(blobs.map(({ digest }) => queries.blobSize(repository, digest))),
      together(manifests.map(part => queries.manifest(repository, part.digest))),
      // BuildKit keeps caches as an index of layers.
      together(manifests.map(part => queries.blobSize(repository, part.digest))),
    ]);
    for (const [at, part] of blobs.entries()) {
      const kept = sizes[at];
      if (kept === undefined && !part.isOptional) return { kind: 'missing-blob', part };
      if (kept !== undefined && kept !== part.size) return { kind: 'blob-size', part, kept };
    }
    for (const [at, part] of manifests.entries()) {
      const kept = known[at]?.size ?? others[at];
      if (kept === undefined) return { kind: 'missing-manifest', part };
      if (kept !== part.size) return { kind: 'manifest-size', part, kept };
    }
    return undefined;
  }

  function* pushManifest(push: ManifestPush): RowsWork<ManifestPushed> {
    const { repository, manifest, limits } = push;
    const { digest, mediaType, size, subject, artifactType, annotations } = manifest;
    const [kept, [known, limit, isHere], missing] = yield* together([
      queries.manifest(repository, digest),
      ask(repository, digest, size, limits),
      missingPart(push),
    ]);
    if (!kept && limit) return { kind: 'limit', limit };
    if (missing) return missing;
    if (!isHere) return { kind: 'gone' };
    const id = yield* idOf(repository, known);
    yield* atLast([
      putManifest.run(id, digest, mediaType, size, subject, artifactType, annotations),
      ...[...push.blobs, ...push.manifests].map(part => putPart.run(id, digest, part.digest)),
      ...push.tags.map(tag => putTag.run(id, tag, digest)),
    ]);
    return { kind: 'put' };
  }

  function* pushBlob(push: BlobPush): RowsWork<BlobRefusal | undefined> {
    const { repository, digest, size, at, limits } = push;
    const [kept, [known, limit, isHere]] = yield* together([
      queries.blobSize(repository, digest),
      ask(repository, digest, size, limits),
    ]);
    if (kept === undefined && limit) return limit;
    if (!isHere) return 'gone';
    const id = yield* idOf(repository, known);
    yield* atLast([putBlob.run(id, digest, size, at), forgetCopy.run(digest)]);
    return undefined;
  }

  return {
    putManifest: push => database.write(() => pushManifest(push)),
    putBlob: push => database.write(() => pushBlob(push)),
  };
}
