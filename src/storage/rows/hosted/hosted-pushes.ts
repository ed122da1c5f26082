import type { Digest } from '../../../oci/digest.ts';
import type { Database } from '../database.ts';
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

export function createHostedPushes(database: Database, queries: HostedQueries): HostedPushes {
  const sql = (text: string) => database.prepare(text);
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
  const claim = (digest: Digest) => claimContent.run({ digest, at: Date.now() }).changes > 0;

  const idOf = (repository: string): number => {
    addRepository.run(repository);
    return Number(queries.repositoryId(repository));
  };

  const limitFor = (
    repository: string,
    digest: Digest,
    size: number,
    { maxBlobBytes, maxRepositoryBytes, maxTotalBytes }: HostedLimits,
  ): HostedLimit | undefined => {
    const isOver = (bytes: number, limit: number | undefined) =>
      limit !== undefined && bytes > limit;
    if (isOver(size, maxBlobBytes)) return 'maxBlobBytes';
    if (isOver(queries.repositoryBytes(repository) + size, maxRepositoryBytes)) {
      return 'maxRepositoryBytes';
    }
    // Content that another repository has takes no additional space.
    if (maxTotalBytes === undefined || queries.isHeld(digest)) return undefined;
    return isOver(queries.totalBytes() + size, maxTotalBytes) ? 'maxTotalBytes' : undefined;
  };

  /** Returns why a manifest is not put; undefined when nothing prevents it. */
  const refusalOf = (push: ManifestPush): ManifestPushed | undefined => {
    const { repository, manifest, blobs, manifests, limits } = push;
    const { digest, size } = manifest;
    const isNew = !queries.manifest(repository, digest);
    const limit = isNew ? limitFor(repository, digest, size, limits) : undefined;
    if (limit) return { kind: 'limit', limit };
    for (const part of blobs) {
      const kept = queries.blobSize(repository, part.digest);
      if (kept === undefined && !part.isOptional) return { kind: 'missing-blob', part };
      if (kept !== undefined && kept !== part.size) return { kind: 'blob-size', part, kept };
    }
    for (const part of manifests) {
      // BuildKit keeps caches as an index of layers.
      const kept =
        queries.manifest(repository, part.digest)?.size ??
        queries.blobSize(repository, part.digest);
      if (kept === undefined) return { kind: 'missing-manifest', part };
      if (kept !== part.size) return { kind: 'manifest-size', part, kept };
    }
    return claim(digest) ? undefined : { kind: 'gone' };
  };

  const pushManifest = (push: ManifestPush): ManifestPushed => {
    const refusal = refusalOf(push);
    if (refusal) return refusal;
    const { digest, mediaType, size, subject, artifactType, annotations } = push.manifest;
    const id = idOf(push.repository);
    putManifest.run(id, digest, mediaType, size, subject, artifactType, annotations);
    for (const part of [...push.blobs, ...push.manifests]) putPart.run(id, digest, part.digest);
    for (const tag of push.tags) putTag.run(id, tag, digest);
    return { kind: 'put' };
  };

  const pushBlob = (push: BlobPush): BlobRefusal | undefined => {
    const { repository, digest, size, at, limits } = push;
    const isNew = queries.blobSize(repository, digest) === undefined;
    const limit = isNew ? limitFor(repository, digest, size, limits) : undefined;
    if (limit) return limit;
    if (!claim(digest)) return 'gone';
    putBlob.run(idOf(repository), digest, size, at);
    forgetCopy.run(digest);
    return undefined;
  };

  return {
    putManifest: push => database.write(() => pushManifest(push)),
    putBlob: push => database.write(() => pushBlob(push)),
  };
}
