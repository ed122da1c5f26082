import { workOnEach } from '../foundation/semaphore.ts';
import { type Digest, isDigest } from '../oci/digest.ts';
import { type Descriptor, type Document, manifestType, partsOf } from '../oci/index.ts';
import { isElsewhere } from '../oci/media-type.ts';
import type { ContentStore } from '../storage/content/index.ts';
import {
  type Access,
  type ManifestPush,
  type PushClient,
  pushingTo,
  type RegistryClient,
} from '../upstream/index.ts';
import type { Documents } from './documents.ts';
import { blobsOf, type MadeOf } from './made-blobs.ts';

/** An image to copy into a repository. */
export interface Publication extends MadeOf {
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

export interface PublishDeps {
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
      const push = pushingTo(target, mountable(place, target));
      // Other images may have the same layer there.
      const mayBeThere = place !== undefined || (isAdded && layers === undefined);
      const isNew = !mayBeThere && size <= smallBytes;
      const open = () => blobs.open(part, stop);
      const done = await pusher.putBlob(push, { digest, size, isKept, isNew, open }, stop);
      if (isAdded) layers?.note(digest, target);
      log(`${digest} (${size} bytes): ${done}\n`);
    };

    // Indexes that share children would multiply the work.
    const done = new Set<Digest>();
    const putDocument = async (document: Document, reference: string): Promise<ManifestPush> => {
      const { blobs, manifests } = partsOf(document);
      await eachOf(
        blobs.filter(part => !isElsewhere(part)),
        blobsAtOnce,
        signal,
        putBlob,
      );
      for (const entry of manifests) {
        if (done.has(entry.digest)) continue;
        const child =
          image.generated.get(entry.digest) ??
          (await documents.manifest(source, entry.digest, entry.mediaType));
        await putDocument(child, entry.digest);
        done.add(entry.digest);
      }
      signal.throwIfAborted();
      return pusher.putManifest(
        push,
        reference,
        { ...document, mediaType: manifestType(document) },
        signal,
      );
    };

    const pushed = await putDocument(image.root, tag);
    if (!isDigest(tag)) {
      log(`${target.registry}/${target.repository}:${tag} is ${image.root.digest}\n`);
    }
    return pushed;
  };
}

/** Returns the repository from which the registry can mount a blob. */
function mountable(
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
