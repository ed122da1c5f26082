import { Fault } from '../foundation/fault.ts';
import type { Descriptor } from '../oci/descriptor.ts';
import type { Digest } from '../oci/digest.ts';
import { type ByteSource, sourceOfBytes } from '../storage/content/byte-source.ts';
import type { ContentStore } from '../storage/content/content-store.ts';
import type { Access } from '../upstream/access.ts';
import { openWhole } from '../upstream/content/open-whole.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';
import type { AugmentedImage } from './augment/augment.ts';

/** An image that was made here from an image in a repository. */
export interface MadeOf {
  readonly image: Pick<AugmentedImage, 'root' | 'generated'>;
  /** Layers that were added here and are in the content store. */
  readonly added: readonly Digest[];
  /** Location of the other blobs. */
  readonly source: Access;
}

/** The blobs of such an image, wherever they are stored. */
export interface MadeBlobs {
  /** True for a blob that is in the content store and may be read from there for this image. */
  isKept(part: Descriptor): Promise<boolean>;
  /** Returns all bytes of a blob. Throws a `Fault`. */
  open(part: Descriptor, signal: AbortSignal): Promise<ByteSource>;
}

export function blobsOf(
  { image, added, source }: MadeOf,
  {
    content,
    registry,
    ownHost,
  }: { content: ContentStore; registry: RegistryClient; ownHost: string },
): MadeBlobs {
  const addedDigests = new Set(added);

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

  return {
    isKept: async part =>
      addedDigests.has(part.digest) || image.generated.has(part.digest) || isHosted(part),

    async open(part, signal) {
      const { digest, size } = part;
      const written = image.generated.get(digest);
      if (written) return sourceOfBytes(written.bytes);
      if (addedDigests.has(digest)) return content.open(digest, 0, size - 1);
      return openWhole(registry, source, part, signal);
    },
  };
}
