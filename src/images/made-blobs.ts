import { Fault } from '../foundation/fault.ts';
import type { Digest } from '../oci/digest.ts';
import type { Descriptor } from '../oci/index.ts';
import { type ByteSource, sourceOfBytes } from '../storage/content/byte-source.ts';
import type { ContentStore } from '../storage/content/index.ts';
import { type Access, openWhole, type RegistryClient } from '../upstream/index.ts';
import type { AugmentedImage } from './augment/index.ts';

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
