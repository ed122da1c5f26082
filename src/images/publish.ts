import { Fault } from '../foundation/fault.ts';
import { workOnEach } from '../foundation/semaphore.ts';
import { sizeText } from '../foundation/text.ts';
import { type Digest, isDigest } from '../oci/digest.ts';
import { type Descriptor, type Document, manifestType, partsOf } from '../oci/index.ts';
import { isElsewhere } from '../oci/media-type.ts';
import { type ByteSource, sourceOfBytes } from '../storage/content/byte-source.ts';
import type { ContentStore } from '../storage/content/index.ts';
import {
  type Access,
  type ManifestPush,
  openWhole,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../upstream/index.ts';
import type { AugmentedImage } from './augment/index.ts';
import type { Documents } from './documents.ts';

/** An image to copy into a repository. */
interface Publication extends MadeOf {
  readonly target: Access;
  /** A tag, or the digest of the image. */
  readonly tag: string;
}

/**
 * Copies an image into a repository, with all platforms and all other entries of its index, and tags it
 * last. Returns how the registry took it. Blobs are mounted or streamed, several at once; existing content stays. Throws `Fault`.
 */
export type Publish = (
  publication: Publication,
  log: (line: string) => void,
  signal: AbortSignal,
) => Promise<ManifestPush>;

interface PublishDeps {
  readonly content: ContentStore;
  readonly documents: Documents;
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
  readonly ownHost: string;
}

const blobsAtOnce = 3;
/** Such a blob takes no longer to send than a request that asks for it. */
const smallBytes = 64 * 1024;

export function createPublish(deps: PublishDeps): Publish {
  const { documents, pusher } = deps;

  return async (publication, log, signal) => {
    const { image, source, target, tag, pushed: layers } = publication;
    const push = pushingTo(target);
    const blobs = blobsOf(publication, deps);
    const added = new Set(publication.added);

    const putBlob = async (part: Descriptor, stop: AbortSignal): Promise<void> => {
      const { digest, size } = part;
      // Only a hosted repository can take over content that is here.
      const isKept = target.registry === deps.ownHost && (await blobs.isKept(part));
      const isAdded = added.has(digest);
      const place =
        blobs.placeOf(digest) ?? (isAdded ? layers?.placeOf(digest, target.registry) : undefined);
      const push = pushingTo(target, mountFrom(place, target));
      // Other images may have the same layer there.
      const mayBeThere = place !== undefined || (isAdded && layers === undefined);
      const isNew = !mayBeThere && size <= smallBytes;
      const open = () => blobs.open(part, stop);
      const done = await pusher.putBlob(push, { digest, size, isKept, isNew, open }, stop);
      if (isAdded) layers?.note(digest, target);
      log(`${digest} (${sizeText(size)}): ${done}\n`);
    };

    // Indexes that share children would multiply the work.
    const done = new Set<Digest>();
    const putDocument = async (document: Document, reference: string): Promise<ManifestPush> => {
      const { blobs, manifests } = partsOf(document);
      const sent = blobs.filter(part => !isElsewhere(part));
      const putBlobs = () => eachOf(sent, blobsAtOnce, signal, putBlob);
      await putBlobs();
      for (const entry of manifests) {
        if (done.has(entry.digest)) continue;
        const child =
          image.generated.get(entry.digest) ??
          (await documents.manifest(source, entry.digest, entry.mediaType));
        await putDocument(child, entry.digest);
        done.add(entry.digest);
      }
      const typed = { ...document, mediaType: manifestType(document) };
      const putManifest = () => {
        signal.throwIfAborted();
        return pusher.putManifest(push, reference, typed, signal);
      };
      try {
        return await putManifest();
      } catch (error) {
        const isBlobGone = error instanceof Fault && error.kind === 'manifest-blob-unknown';
        if (!isBlobGone) throw error;
        // The registry had a blob that no manifest needed, and has removed it since.
        await putBlobs();
        return putManifest();
      }
    };

    const pushed = await putDocument(image.root, tag);
    if (!isDigest(tag)) {
      log(`${target.registry}/${target.repository}:${tag} is ${image.root.digest}\n`);
    }
    return pushed;
  };
}

/** Returns the repository from which the registry can mount a blob. */
function mountFrom(
  place: Pick<Access, 'registry' | 'repository'> | undefined,
  target: Access,
): string | undefined {
  const isThere = place?.registry === target.registry && place.repository !== target.repository;
  return isThere ? place.repository : undefined;
}

/** Does the work for each item, a limited number at a time. The first failure stops the rest; waits until all end. */
async function eachOf<T>(
  items: readonly T[],
  atOnce: number,
  signal: AbortSignal,
  work: (item: T, stop: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  await workOnEach(items, atOnce, item =>
    work(item, stop).catch(error => {
      failed.abort(error);
      throw error;
    }),
  );
}

type RepositoryName = Pick<Access, 'registry' | 'repository'>;

/** An image that was made here from an image in a repository. */
export interface MadeOf {
  readonly image: Pick<AugmentedImage, 'root' | 'generated'>;
  /** Layers that were added here and are in the content store. */
  readonly added: readonly Digest[];
  /** Location of the other blobs, except for those in `elsewhere`. */
  readonly source: Access;
  /** Locations of blobs to which the caller has proved a right, such as the layers of a verified base image. */
  readonly elsewhere?: ReadonlyMap<Digest, Access> | undefined;
  /** Where added layers of this image were pushed before. Without it, each of them may be at the target. */
  readonly pushed?: PushedLayers | undefined;
}

/** Repositories of layers that were made here. */
export interface PushedLayers {
  /** Returns the repository of the registry to which a layer was last pushed. */
  placeOf(digest: Digest, registry: string): RepositoryName | undefined;
  note(digest: Digest, target: Access): void;
}

/** The blobs of such an image, wherever they are stored. */
export interface MadeBlobs {
  /** Returns the repository of a blob; undefined for one that was made here. */
  placeOf(digest: Digest): Access | undefined;
  /** True for a blob that is in the content store and may be read from there for this image. */
  isKept(part: Descriptor): Promise<boolean>;
  /** Returns all bytes of a blob. Throws a `Fault`. */
  open(part: Descriptor, signal: AbortSignal): Promise<ByteSource>;
}

export function blobsOf(
  { image, added, source, elsewhere }: MadeOf,
  {
    content,
    registry,
    ownHost,
  }: { content: ContentStore; registry: RegistryClient; ownHost: string },
): MadeBlobs {
  const addedDigests = new Set(added);

  // For a proved right, a copy that is here serves as well as the registry.
  const isCopied = async (digest: Digest): Promise<boolean> =>
    elsewhere?.has(digest) === true && (await content.claim(digest));

  // A hosted manifest may name blobs that its repository lacks, since a descriptor can point elsewhere by URL.
  const isHosted = async ({ digest, size }: Descriptor): Promise<boolean> => {
    if (source.registry !== ownHost) return false;
    try {
      return (await registry.headBlob(source, digest)) === size;
    } catch (error) {
      if (error instanceof Fault && error.kind === 'blob-unknown') return false;
      throw error;
    }
  };

  const placeOf = (digest: Digest): Access | undefined =>
    addedDigests.has(digest) || image.generated.has(digest)
      ? undefined
      : (elsewhere?.get(digest) ?? source);

  return {
    placeOf,

    isKept: async part =>
      placeOf(part.digest) === undefined || (await isCopied(part.digest)) || isHosted(part),

    async open(part, signal) {
      const { digest, size } = part;
      const written = image.generated.get(digest);
      if (written) return sourceOfBytes(written.bytes);
      const place = placeOf(digest);
      if (!place || (await isCopied(digest))) return content.open(digest, 0, size - 1);
      return openWhole(registry, place, part, signal);
    },
  };
}
