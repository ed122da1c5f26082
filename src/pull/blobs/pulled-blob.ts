import { Fault, isUnwritable } from '../../foundation/fault.ts';
import type { Tally } from '../../foundation/telemetry/counted.ts';
import type { Digest } from '../../oci/digest.ts';
import { begun, sourceOfBytes } from '../../storage/content/byte-source.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { Access, BlobMode, RegistryClient } from '../../upstream/index.ts';
import { type PulledImage, servedWith } from '../pulled-image.ts';
import type { BlobCache } from './blob-cache.ts';
import { type BlobOrder, orderStored } from './blob-order.ts';
import type { FoundBlob, RangeOf } from './blob-relays.ts';
import { type RelayedBlob, type RelayedBlobs, wrongSize } from './relayed-blobs.ts';

export interface BlobFinder {
  /** Returns the size of the blob in bytes. */
  head(image: PulledImage, digest: Digest, signal: AbortSignal): Promise<number>;
  /** Returns the blob, or the requested part. The caller reads the source to its end or destroys it. */
  open(
    image: PulledImage,
    digest: Digest,
    rangeOf: RangeOf | undefined,
    signal: AbortSignal,
  ): Promise<FoundBlob>;
  /** Returns the order by which another server of the site sends the blob; undefined when this server sends it itself. */
  order(image: PulledImage, digest: Digest): Promise<BlobOrder | undefined>;
}

export interface BlobFinderDeps {
  readonly content: ContentStore;
  readonly registry: Pick<RegistryClient, 'headBlob'>;
  readonly cache: BlobCache;
  readonly relayed: RelayedBlobs;
  readonly modeOf: (registry: string) => BlobMode;
  readonly ownHost: string;
  readonly tally: Tally;
}

export function createBlobFinder(deps: BlobFinderDeps): BlobFinder {
  const { content, registry, cache, relayed, modeOf, ownHost, tally } = deps;

  /**
   * Returns the size of kept content, but only of content that belongs to the image and is its own or has come from its
   * registry. A name in a manifest does not prove that another registry has the content.
   */
  const keptSize = async (image: PulledImage, digest: Digest) => {
    const member = await image.member(digest);
    if (!member && servedWith(image) !== 'everything') throw notOfImage(image, digest);
    const mayServe =
      member && (image.owns(digest) || (!member.isElsewhere && (await isShown(image, digest))));
    const size = mayServe ? await content.size(digest) : undefined;
    // Kept through another image, whose manifest is correct.
    if (member && size !== undefined && size !== member.size) {
      throw wrongSize(digest, size, member.size);
    }
    return { member, size };
  };

  const hasBlob = (access: Access, digest: Digest): Promise<boolean> =>
    registry.headBlob(access, digest).then(
      () => true,
      () => false,
    );

  /** Returns true if the repository has the blob: a registry may have it in another repository only. */
  const isShown = async ({ access }: PulledImage, digest: Digest): Promise<boolean> => {
    // The parts of a hosted image may be unchecked: an index may list a blob with the text of a manifest. The right to the
    // repository has been checked.
    if (access.registry === ownHost) return hasBlob({ ...access, isService: true }, digest);
    if (await cache.isFrom(digest, access)) return true;
    if (!(await cache.isFrom(digest, access.registry))) return false;
    const isThere = await hasBlob(access, digest);
    if (isThere) cache.shownBy(digest, access);
    return isThere;
  };

  /** The next builds use the copies that builders get. */
  const modeFor = ({ access, reader }: PulledImage): BlobMode => {
    if (reader === 'builder') return 'cache';
    const mode = modeOf(access.registry);
    // It reaches no other host.
    return reader === 'scanner' && mode === 'redirect' ? 'relay' : mode;
  };

  /** Counts a use of kept content. */
  const noteKept = ({ access, owns }: PulledImage, digest: Digest): void => {
    const isOfCache = modeOf(access.registry) === 'cache' && access.registry !== ownHost;
    if (isOfCache && !owns(digest)) tally.add('cached blobs', { source: 'cache' });
    cache.used(digest);
  };

  const cached = async (
    blob: RelayedBlob,
    rangeOf: RangeOf | undefined,
    signal: AbortSignal,
  ): Promise<FoundBlob> => {
    const { access, digest } = blob;
    const openWhole = relayed.opening(blob);
    const reader = await cache.join(access, digest, openWhole, signal).catch(error => {
      if (!isUnwritable(error)) throw error;
      return undefined;
    });
    // A pull continues if no copy can be kept, or it is gone again.
    if (!reader) return relayed.open(blob, rangeOf, 'follow', signal);
    try {
      const { start, end } = rangeOf?.(reader.size) ?? { start: 0, end: reader.size - 1 };
      const source = reader.read(start, end);
      return { kind: 'stream', size: reader.size, source, delivery: 'stored', isVerified: true };
    } catch (error) {
      reader.leave();
      throw error;
    }
  };

  return {
    async head(image, digest, signal) {
      const held = image.held?.(digest);
      if (held) return held.bytes.length;
      const { member, size } = await keptSize(image, digest);
      return size ?? relayed.size({ access: image.access, digest, size: member?.size }, signal);
    },

    async order(image, digest) {
      if (image.held?.(digest)) return undefined;
      const { access } = image;
      const mode = modeFor(image);
      const isOwn = access.registry === ownHost;
      const { member, size } = await keptSize(image, digest);
      if (size !== undefined) {
        const order = orderStored(content, digest, size, true);
        if (order) noteKept(image, digest);
        return order;
      }
      // Only this server keeps copies.
      if (mode === 'cache' || isOwn) return undefined;
      const redirects = mode === 'redirect' ? 'handOn' : 'follow';
      return { kind: 'relayed', blob: { access, digest, size: member?.size }, redirects };
    },

    async open(image, digest, rangeOf, signal) {
      const held = image.held?.(digest);
      if (held) return blobOfBytes(held.bytes, rangeOf);
      const { member, size } = await keptSize(image, digest);
      const blob = { access: image.access, digest, size: member?.size };
      const mode = modeFor(image);
      if (size !== undefined) {
        const isOwn = image.access.registry === ownHost || image.owns(digest);
        const store = image.reader === 'scanner' ? unlinked(content) : content;
        const found = await (isOwn ? keptBlob : copied)(store, digest, size, rangeOf);
        if (found) {
          noteKept(image, digest);
          return found;
        }
      }
      if (mode === 'cache') {
        if (!member) await registry.headBlob(image.access, digest, signal);
        const isKept = !member && (await cache.isFrom(digest, image.access));
        const kept = isKept ? await content.size(digest) : undefined;
        const copy = kept === undefined ? undefined : await copied(content, digest, kept, rangeOf);
        tally.add('cached blobs', { source: copy ? 'cache' : 'registry' });
        if (!copy) return cached(blob, rangeOf, signal);
        cache.used(digest);
        return copy;
      }
      const redirects = mode === 'redirect' ? 'handOn' : 'follow';
      return relayed.open(blob, rangeOf, redirects, signal);
    },
  };
}

/**
 * In the service's own right the registry returns everything: content that the image does not name is not requested.
 */
function notOfImage({ access: { repository } }: PulledImage, digest: Digest): Fault {
  return new Fault('blob-unknown', `The image of ${repository} has no blob ${digest}`, {
    phase: 'request',
  });
}

/** Returns a store that sends all of its content itself. */
function unlinked(content: ContentStore): Pick<ContentStore, 'link' | 'open' | 'size'> {
  return { link: async () => undefined, open: content.open, size: content.size };
}

/** A blob in memory, for a client. */
export function blobOfBytes(bytes: Uint8Array, rangeOf: RangeOf | undefined): FoundBlob {
  const size = bytes.length;
  const range = rangeOf?.(size);
  const source = sourceOfBytes(range ? bytes.subarray(range.start, range.end + 1) : bytes);
  return { kind: 'stream', size, source, delivery: 'stored', isVerified: true };
}

/** A blob of the content store, for a client. */
export async function keptBlob(
  content: Pick<ContentStore, 'link' | 'open'>,
  digest: Digest,
  size: number,
  rangeOf: RangeOf | undefined,
): Promise<FoundBlob> {
  const location = await content.link(digest, size);
  if (location) return { kind: 'redirect', location };
  const { start, end } = rangeOf?.(size) ?? { start: 0, end: size - 1 };
  const source = content.open(digest, start, end);
  return { kind: 'stream', size, source, delivery: 'stored', isVerified: true };
}

/** Returns a copy; undefined when it was removed since it was found. Its registry has the blob. */
async function copied(
  content: Pick<ContentStore, 'link' | 'open' | 'size'>,
  digest: Digest,
  size: number,
  rangeOf: RangeOf | undefined,
): Promise<FoundBlob | undefined> {
  const copy = await keptBlob(content, digest, size, rangeOf);
  if (copy.kind !== 'stream') return copy;
  try {
    return { ...copy, source: await begun(copy.source) };
  } catch (error) {
    if ((await content.size(digest)) === undefined) return undefined;
    throw error;
  }
}
