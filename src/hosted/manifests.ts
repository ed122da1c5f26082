import { LRUCache } from 'lru-cache';
import { Fault } from '../foundation/fault.ts';
import { ownBytes } from '../foundation/own-bytes.ts';
import type { Announce } from '../messages/index.ts';
import {
  type Digest,
  type DigestAlgorithm,
  digestOf,
  isDigest,
  splitDigest,
} from '../oci/digest.ts';
import {
  type Document,
  type Manifest,
  manifestType,
  parseJson,
  parseManifest,
  partsOf,
} from '../oci/index.ts';
import { bareMediaType, isElsewhere, isManifestLikeType, mediaTypes } from '../oci/media-type.ts';
import type { ContentStore } from '../storage/content/index.ts';
import type {
  HostedManifest,
  HostedStore,
  ManifestPushed,
  NeededPart,
  PullStore,
} from '../storage/rows/index.ts';
import { gone } from './blobs.ts';
import { removePulls } from './listings/pulled-names.ts';
import { contextPrefix } from './uploads/context-repository.ts';
import type { Quota } from './uploads/quota.ts';

/** The manifests and tags of hosted repositories. */
export interface HostedManifests {
  /** Returns a manifest by tag or digest. Throws a {@link Fault} (404). */
  get(repository: string, reference: string): Promise<Document>;
  /** Returns the properties of the manifest of a tag or digest, without its bytes. Throws a {@link Fault} (404). */
  head(repository: string, reference: string): Promise<HostedManifest>;
  /** Throws a {@link Fault}: 400 for a malformed manifest, 404 when it refers to content that was never pushed. */
  put(repository: string, pushed: PushedManifest): Promise<StoredManifest>;
  /**
   * Deletes a tag, or a manifest with its tags. Throws a {@link Fault} (404).
   *
   * @param signal aborts a deletion that has not begun
   */
  remove(repository: string, reference: string, signal?: AbortSignal): Promise<void>;
  /** Deletes all manifests and tags, a few at a time. */
  removeAll(repository: string): Promise<void>;
}

export interface PushedManifest {
  readonly bytes: Buffer;
  /** The `Content-Type` of the request. */
  readonly contentType: string | undefined;
  /** The digest that it must have, when it was pushed by digest. */
  readonly digest?: Digest | undefined;
  readonly tags: readonly string[];
  /** Aborts a push that has not taken effect. */
  readonly signal?: AbortSignal;
}

export interface StoredManifest {
  readonly digest: Digest;
  /** The manifest that this one describes. */
  readonly subject: Digest | undefined;
}

export interface HostedManifestsDeps {
  readonly content: ContentStore;
  readonly store: HostedStore;
  readonly pulls: Pick<PullStore, 'remove'>;
  readonly quota: Quota;
  /** Returns the messages about pushes and deletions. Default: none. */
  readonly announce?: Announce;
}

const memoryBytes = 32 * 1024 * 1024;

export function createHostedManifests({
  content,
  store,
  pulls,
  quota,
  announce = () => [],
}: HostedManifestsDeps): HostedManifests {
  const memory = new LRUCache<Digest, Buffer>({
    maxSize: memoryBytes,
    sizeCalculation: bytes => bytes.length + 200,
  });

  const head = async (repository: string, reference: string): Promise<HostedManifest> => {
    const row = await (isDigest(reference)
      ? store.manifest(repository, reference)
      : store.taggedManifest(repository, reference));
    if (!row) throw unknown(repository, reference);
    return row;
  };

  return {
    head,

    async get(repository, reference) {
      const { digest, mediaType } = await head(repository, reference);
      const bytes = memory.get(digest) ?? (await content.read(digest));
      if (!bytes) throw damaged(digest);
      memory.set(digest, ownBytes(bytes));
      return { bytes, mediaType, digest };
    },

    async put(repository, pushed) {
      const document = documentOf(pushed);
      const manifest = parseManifest(document);
      if (manifest.kind === 'schema1') {
        throw invalid('it has the retired Docker schema 1 format: push it with a current client');
      }
      const { blobs, manifests } = partsOf(document, manifest);
      const { bytes, digest } = document;
      await keepDurably(content, digest, bytes);
      const row = rowOf(document, manifest);
      const pushedTo = await store.putManifest({
        repository,
        manifest: row,
        blobs: blobs.map(part => ({
          digest: part.digest,
          size: part.size,
          // A manifest of an unknown type may refer to anything, for instance to a manifest.
          isOptional: isElsewhere(part) || manifest.kind === 'opaque',
        })),
        manifests,
        tags: pushed.tags,
        limits: quota.limitsOf(repository),
        signal: pushed.signal,
        messages: isInternal(repository)
          ? []
          : announce({
              kind: 'image.pushed',
              repository,
              digest,
              tags: pushed.tags,
              mediaType: row.mediaType,
              size: row.size,
            }),
      });
      if (pushedTo.kind !== 'put') throw refusalOf({ repository, digest }, pushedTo, quota);
      memory.set(digest, ownBytes(bytes));
      return { digest, subject: row.subject ?? undefined };
    },

    async remove(repository, reference, signal) {
      const named = isDigest(reference) ? { digest: reference } : { tag: reference };
      const messages = isInternal(repository)
        ? []
        : announce({ kind: 'image.deleted', repository, ...named });
      const isThere = await (isDigest(reference)
        ? store.removeManifest(repository, reference, { messages, signal })
        : store.removeTag(repository, reference, { messages, signal }));
      if (!isThere) throw unknown(repository, reference);
      const [left] = await store.manifestsOf(repository, '', 1);
      // The next owner of the name learns nothing. A sweep repeats it, should it fail.
      if (!left) await removePulls(repository, pulls).catch(() => {});
    },

    removeAll: store.removeManifests,
  };
}

// Intermediate images of builds, which the room of builds puts here.
const stagedPattern = /^builds\/staging\/[0-9a-f]+_\d+$/;

/** Returns true for repositories that no messages are about: those of build contexts and intermediate images. */
function isInternal(repository: string): boolean {
  return repository.startsWith(contextPrefix) || stagedPattern.test(repository);
}

/** Returns the pushed manifest, after a check of its digest and its media type. */
function documentOf({ bytes, contentType, digest: expected }: PushedManifest): Document {
  const body = parseJson(bytes, 'manifest');
  const served = bareMediaType(contentType);
  const own = typeof body.mediaType === 'string' ? body.mediaType : '';
  if (own !== '' && served !== undefined && own !== served) {
    throw invalid(`its mediaType is ${own}, but it was pushed as ${served}`);
  }
  const algorithm: DigestAlgorithm = expected ? splitDigest(expected).algorithm : 'sha256';
  const digest = digestOf(bytes, algorithm);
  if (expected && digest !== expected) {
    throw new Fault('digest-invalid', `The manifest's digest is ${digest}, not ${expected}`, {
      phase: 'push',
    });
  }
  const document = { bytes, digest, mediaType: served ?? mediaTypes.ociManifest };
  const mediaType = manifestType(document);
  if (isManifestLikeType(mediaType)) return { bytes, digest, mediaType };
  throw invalid(
    `its type is '${mediaType.slice(0, 100)}': push it with the type of a manifest, such as ${mediaTypes.ociManifest}`,
  );
}

// Limit for the properties of a manifest in the list of referrers. Media types have at most 255 characters (RFC 6838,
// section 4.2).
const maxListedType = 255;
const maxListedAnnotations = 128 * 1024;

function rowOf({ digest, mediaType, bytes }: Document, manifest: Manifest): HostedManifest {
  const isDescribed = manifest.kind === 'manifest' || manifest.kind === 'index';
  const subject = isDescribed ? manifest.subject : undefined;
  const ownType = isDescribed ? manifest.artifactType : undefined;
  const config = manifest.kind === 'manifest' ? manifest.config.mediaType : undefined;
  const type = ownType ?? config;
  const annotations =
    subject && isDescribed && manifest.annotations ? JSON.stringify(manifest.annotations) : null;
  return {
    digest,
    mediaType,
    size: bytes.length,
    subject: subject?.digest ?? null,
    // Source: distribution specification 1.1, Listing Referrers: an image's type is that of its config.
    artifactType: type !== undefined && type.length <= maxListedType ? type : null,
    annotations: annotations && annotations.length <= maxListedAnnotations ? annotations : null,
  };
}

/** Returns why a manifest cannot be put into a repository. */
function refusalOf(
  { repository, digest }: { readonly repository: string; readonly digest: Digest },
  refused: Exclude<ManifestPushed, { kind: 'put' }>,
  quota: Quota,
): Fault {
  switch (refused.kind) {
    case 'limit':
      return quota.refusal(repository, refused.limit);
    case 'missing-blob':
      return new Fault(
        'manifest-blob-unknown',
        `The manifest refers to ${refused.part.digest}, which ${repository} does not have: push the blob first`,
        { phase: 'push' },
      );
    case 'missing-manifest':
      return new Fault(
        'manifest-blob-unknown',
        `The index refers to ${refused.part.digest}, which ${repository} does not have: push that manifest first`,
        { phase: 'push' },
      );
    case 'blob-size':
      return wrongSize('manifest', refused.part, refused.kept);
    case 'manifest-size':
      return wrongSize('index', refused.part, refused.kept);
    case 'gone':
      return gone(digest);
  }
}

function wrongSize(what: string, { digest, size }: NeededPart, kept: number): Fault {
  return new Fault(
    'size-invalid',
    `The ${what} says that ${digest} has ${size} bytes, but it has ${kept}: correct the size in its descriptor`,
    { phase: 'push' },
  );
}

async function keepDurably(content: ContentStore, digest: Digest, bytes: Buffer): Promise<void> {
  const file = await content.ingest(splitDigest(digest).algorithm);
  try {
    await file.write(bytes);
    await file.commit();
  } catch (error) {
    await file.abort();
    throw error;
  }
}

function invalid(why: string): Fault {
  return new Fault('manifest-invalid', `Cannot accept the manifest: ${why}`, { phase: 'push' });
}

function unknown(repository: string, reference: string): Fault {
  return new Fault('manifest-unknown', `${repository} has no manifest ${reference}`, {
    phase: 'request',
  });
}

function damaged(digest: Digest): Fault {
  return new Fault(
    'manifest-unknown',
    `The manifest ${digest} is damaged or missing on the disk: push it again, and run 'sluice verify'`,
    { phase: 'store' },
  );
}
