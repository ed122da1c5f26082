import type { Digest } from '../../../oci/digest.ts';
import type { RowDatabase, RowsWork } from '../driver/row-database.ts';
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
    yield* addRepository.run(repository);
    return Number(yield* queries.repositoryId(repository));
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
    const bytes = Number((yield* queries.repositoryBytes(repository)) ?? 0);
    if (isOver(bytes + size, maxRepositoryBytes)) {
      return 'maxRepositoryBytes' satisfies HostedLimit;
    }
    // Content that another repository has takes no additional space.
    if (maxTotalBytes === undefined || (yield* queries.isHeld({ digest })) === 1) return undefined;
    const total = Number(yield* queries.totalBytes());
    return isOver(total + size, maxTotalBytes)
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
    for (const part of blobs) {
      const kept = yield* queries.blobSize(repository, part.digest);
      if (kept === undefined && !part.isOptional) return { kind: 'missing-blob', part };
      if (kept !== undefined && kept !== part.size) return { kind: 'blob-size', part, kept };
    }
    for (const part of manifests) {
      // BuildKit keeps caches as an index of layers.
      const kept =
        (yield* queries.manifest(repository, part.digest))?.size ??
        (yield* queries.blobSize(repository, part.digest));
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
    yield* putManifest.run(id, digest, mediaType, size, subject, artifactType, annotations);
    for (const part of [...push.blobs, ...push.manifests]) {
      yield* putPart.run(id, digest, part.digest);
    }
    for (const tag of push.tags) yield* putTag.run(id, tag, digest);
    return { kind: 'put' };
  }

  function* pushBlob(push: BlobPush): RowsWork<BlobRefusal | undefined> {
    const { repository, digest, size, at, limits } = push;
    const isNew = (yield* queries.blobSize(repository, digest)) === undefined;
    const limit = isNew ? yield* limitFor(repository, digest, size, limits) : undefined;
    if (limit) return limit;
    const claimed = yield* claimContent.changes({ digest, at: Date.now() });
    if (claimed === 0) return 'gone';
    yield* putBlob.run(yield* idOf(repository), digest, size, at);
    yield* forgetCopy.run(digest);
    return undefined;
  }

  return {
    putManifest: push => database.write(() => pushManifest(push)),
    putBlob: push => database.write(() => pushBlob(push)),
  };
}
