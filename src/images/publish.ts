import type { AugmentedImage } from '../augment/augment.ts';
import type { InjectedLayer } from '../augment/image-change.ts';
import { sourceOfBytes } from '../content/byte-source.ts';
import type { ContentStore } from '../content/content-store.ts';
import type { Descriptor } from '../oci/descriptor.ts';
import type { Document } from '../oci/document.ts';
import { manifestType } from '../oci/manifest.ts';
import { partsOf } from '../oci/manifest-parts.ts';
import { isElsewhere } from '../oci/media-type.ts';
import type { Access } from '../upstream/authorizer.ts';
import { openWhole } from '../upstream/open-whole.ts';
import { type PushClient, pushingTo } from '../upstream/push-client.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';
import type { Documents } from './documents.ts';

/** An image that is to be in a repository. */
export interface Publication {
  readonly image: Pick<AugmentedImage, 'root' | 'generated'>;
  /** Layers of it that were added here, and are in the content store. */
  readonly added: readonly InjectedLayer[];
  /** Where the rest of it is. */
  readonly source: Access;
  readonly target: Access;
  readonly tag: string;
}

/**
 * Copies an image into a repository, all its platforms and whatever else its index names, and tags it
 * at last. Blobs are mounted or streamed, several at once; what is there stays. Throws `Fault`.
 */
export type Publish = (
  publication: Publication,
  log: (line: string) => void,
  signal: AbortSignal,
) => Promise<void>;

export interface PublishDeps {
  readonly content: ContentStore;
  readonly documents: Documents;
  readonly registry: RegistryClient;
  readonly pusher: PushClient;
  readonly ownHost: string;
}

const blobsAtOnce = 3;

export function createPublish(deps: PublishDeps): Publish {
  const { content, documents, registry, pusher, ownHost } = deps;

  return async ({ image, added, source, target, tag }, log, signal) => {
    const isMountable =
      source.registry === target.registry && source.repository !== target.repository;
    const push = pushingTo(target, isMountable ? source.repository : undefined);
    const addedDigests = new Set(added.map(({ gzipDigest }) => gzipDigest));

    const putBlob = async (part: Descriptor): Promise<void> => {
      const { digest, size } = part;
      const written = image.generated.get(digest);
      const isAdded = addedDigests.has(digest);
      const done = await pusher.putBlob(
        push,
        {
          digest,
          size,
          isKept: isAdded || written !== undefined || source.registry === ownHost,
          open: async () => {
            if (written) return sourceOfBytes(written.bytes);
            if (isAdded) return content.open(digest, 0, size - 1);
            return openWhole(registry, source, part, signal);
          },
        },
        signal,
      );
      log(`${digest} (${size} bytes): ${done}\n`);
    };

    const putDocument = async (document: Document, reference: string): Promise<void> => {
      const { blobs, manifests } = partsOf(document);
      await eachOf(
        blobs.filter(part => !isElsewhere(part)),
        blobsAtOnce,
        putBlob,
      );
      for (const entry of manifests) {
        const child =
          image.generated.get(entry.digest) ??
          (await documents.manifest(source, entry.digest, entry.mediaType));
        await putDocument(child, entry.digest);
      }
      signal.throwIfAborted();
      await pusher.putManifest(
        push,
        reference,
        { ...document, mediaType: manifestType(document) },
        signal,
      );
    };

    await putDocument(image.root, tag);
    log(`${target.registry}/${target.repository}:${tag} is ${image.root.digest}\n`);
  };
}

/** Does the work for each item, for so many at a time; begins none after the first failure. */
async function eachOf<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  let hasFailed = false;
  const workOn = async () => {
    for (const item of queue) {
      if (hasFailed) return;
      await work(item).catch(error => {
        hasFailed = true;
        throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, workOn));
}
