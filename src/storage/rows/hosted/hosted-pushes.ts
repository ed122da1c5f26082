import type { Digest } from '../../../oci/digest.ts';
import type { RowDatabase, RowsWork } from '../driver/row-database.ts';
import { together } from '../driver/together.ts';
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

  function* idOf(repository: string) {
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
  ) {
    const isOver = (bytes: number, limit: number | undefined) =>
      limit !== undefined && bytes > limit;
    if (isOver(size, maxBlobBytes)) return 'maxBlobBytes' satisfies HostedLimit;
    const [bytes, isHeld, total] = yield* together([
      queries.repositoryBytes(repository),
      queries.isHeld({ digest }),
      queries.totalBytes(),
    ]);
    if (isOver(Number(bytes ?? 0) + size, maxRepositoryBytes)) {
      return 'maxRepositoryBytes' satisfies HostedLimit;
    }
    // Content that another repository has takes no additional space.
    if (isHeld === 1) return undefined;
    return isOver(Number(total) + size, maxTotalBytes)
      ? ('maxTotalBytes' satisfies HostedLimit)
      : undefined;
  }

  /** Returns why a manifest is not put; undefined when nothing prevents it. */
  function* refusalOf(push: ManifestPush): RowsWork<ManifestPushed | undefined> {
    const { repository, manifest, blobs, manifests, limits } = push;
    const { digest, size } = manifest;
    const isNew = !(yield* queries.manifest(repository, digest));
    const limit = isNew ? yield* limitFor(repository, digest, size, limits) : undefined;
    if (limit) return { kind: 'limit', limit };
    const sizes = yield* together(blobs.map(({ digest }) => queries.blobSize(repository, digest)));
    for (const [at, part] of blobs.entries()) {
      const kept = sizes[at];
      if (kept === undefined && !part.isOptional) return { kind: 'missing-blob', part };
      if (kept !== undefined && kept !== part.size) return { kind: 'blob-size', part, kept };
    }
    const [known, others] = yield* together([
      together(manifests.map(part => queries.manifest(repository, part.digest))),
      // BuildKit keeps caches as an index of layers.
      together(manifests.map(part => queries.blobSize(repository, part.digest))),
    ]);
    for (const [at, part] of manifests.entries()) {
      const kept = known[at]?.size ?? others[at];
      if (kept === undefined) return { kind: 'missing-manifest', part };
      if (kept !== part.size) return { kind: 'manifest-size', part, kept };
    }
    const claimed = yield* claimContent.changes({ digest, at: Date.now() });
    return claimed > 0 ? undefined : { kind: 'gone' };
  }

  function* pushManifest(push: ManifestPush): RowsWork<ManifestPushed> {
    const refusal = yield* refusalOf(push);
    if (refusal) return refusal;
    const { digest, mediaType, size, subject, artifactType, annotations } = push.manifest;
    const id = yield* idOf(push.repository);
    yield* together([
      putManifest.run(id, digest, mediaType, size, subject, artifactType, annotations),
      ...[...push.blobs, ...push.manifests].map(part => putPart.run(id, digest, part.digest)),
      ...push.tags.map(tag => putTag.run(id, tag, digest)),
    ]);
    return { kind: 'put' };
  }

  function* pushBlob(push: BlobPush): RowsWork<BlobRefusal | undefined> {
    const { repository, digest, size, at, limits } = push;
    const isNew = (yield* queries.blobSize(repository, digest)) === undefined;
    const limit = isNew ? yield* limitFor(repository, digest, size, limits) : undefined;
    if (limit) return limit;
    const claimed = yield* claimContent.changes({ digest, at: Date.now() });
    if (claimed === 0) return 'gone';
    const id = yield* idOf(repository);
    yield* together([putBlob.run(id, digest, size, at), forgetCopy.run(digest)]);
    return undefined;
  }

  return {
    putManifest: push => database.write(() => pushManifest(push)),
    putBlob: push => database.write(() => pushBlob(push)),
  };
}
