import { Fault, isUnwritable } from '../../foundation/fault.ts';
import type { Tally } from '../../foundation/telemetry/tally.ts';
import type { Digest } from '../../oci/digest.ts';
import type { ContentStore } from '../../storage/content/content-store.ts';
import { credentialKey } from '../../upstream/auth/credentials.ts';
import { checkNotEmpty } from '../../upstream/content/blob-answer.ts';
import { resumingSource } from '../../upstream/content/resuming-source.ts';
import type { OpenedBlob, RegistryClient } from '../../upstream/registry-client.ts';
import type { BlobMode } from '../../upstream/registry-settings.ts';
import type { PulledImage } from '../pulled-image.ts';
import type { BlobCache } from './blob-cache.ts';
import type { BlobRelays } from './blob-relays.ts';
import type { ByteRange, FoundBlob, RangeOf } from './found-blob.ts';
import { createVerifiedBlobs } from './verified-blobs.ts';

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
}

export interface BlobFinderDeps {
  readonly content: ContentStore;
  readonly registry: RegistryClient;
  readonly cache: BlobCache;
  readonly relays: BlobRelays;
  readonly modeOf: (registry: string) => BlobMode;
  readonly ownHost: string;
  /** Longest wait for the next bytes of a blob (ms). */
  readonly stallMs: number;
  /** How long a blob that was verified whole is relayed without hashing it (ms); 0: never. */
  readonly trustMs: number;
  readonly tally: Tally;
}

export function createBlobFinder(deps: BlobFinderDeps): BlobFinder {
  const { content, registry, cache, relays, modeOf, ownHost, stallMs, tally } = deps;
  const verified = createVerifiedBlobs(deps.trustMs);

  /**
   * Returns the size of kept content, but only of content that belongs to the image and is its own or has come from its
   * registry. A name in a manifest does not prove that another registry has the content.
   */
  const keptSize = async (image: PulledImage, digest: Digest) => {
    const member = await image.member(digest);
    if (!member) {
      if (image.access.isService) throw notOfImage(image, digest);
      return { member, size: undefined };
    }
    const mayServe = image.owns(digest) || (!member.isElsewhere && (await isShown(image, digest)));
    const size = mayServe ? await content.size(digest) : undefined;
    // Kept through another image, whose manifest is correct.
    if (size !== undefined && size !== member.size) throw wrongSize(digest, size, member.size);
    return { member, size };
  };

  /** Returns true if the repository has the blob: a registry may have it in another repository only. */
  const isShown = async ({ access }: PulledImage, digest: Digest): Promise<boolean> => {
    // A hosted repository accepts no manifest of content that it does not have.
    if (access.registry === ownHost || (await cache.isFrom(digest, access))) return true;
    if (!(await cache.isFrom(digest, access.registry))) return false;
    const isThere = await registry.headBlob(access, digest).then(
      () => true,
      () => false,
    );
    if (isThere) cache.shownBy(digest, access);
    return isThere;
  };

  const fromContent = (
    digest: Digest,
    size: number,
    rangeOf: RangeOf | undefined,
  ): Promise<FoundBlob> => {
    cache.used(digest);
    return keptBlob(content, digest, size, rangeOf);
  };

  const sizeAt = async (
    image: PulledImage,
    digest: Digest,
    signal: AbortSignal,
    expected?: number,
  ) => {
    const size = await registry.headBlob(image.access, digest, signal);
    if (size !== undefined && size !== (expected ?? size)) throw wrongSize(digest, size, expected);
    if (size !== undefined) return size;
    throw new Fault('upstream', `The registry does not report the size of ${digest}`, {
      phase: 'upstream',
    });
  };

  /** Returns the bytes from `start` to `end` as they arrive from the registry; resumes an interrupted transfer. */
  const relayed = async (
    image: PulledImage,
    digest: Digest,
    size: number | undefined,
    range: ByteRange | undefined,
    redirects: 'follow' | 'handOn',
    signal: AbortSignal,
  ): Promise<FoundBlob> => {
    let total = size;
    const openAt = async (offset: number, how: 'follow' | 'handOn') =>
      registry.openBlob(image.access, digest, {
        ...{ offset, size: total },
        ...(range && range.end + 1 !== size ? { last: range.end } : {}),
        redirects: how,
        signal,
      });
    const start = range?.start ?? 0;
    const opened = await openAt(start, redirects);
    if (opened.kind === 'redirect') return opened;
    const { answer, offset } = opened;
    total = await totalOf(image, digest, opened, size, signal);
    const source = resumingSource({
      first: { source: answer.body, offset },
      start,
      end: range?.end ?? total - 1,
      reopen: async from => {
        const again = await openAt(from, 'follow');
        if (again.kind === 'redirect') throw new Error('a redirect was not followed');
        return { source: again.answer.body, offset: again.offset };
      },
      stallMs,
    });
    return {
      ...{ kind: 'stream', size: total, source, way: 'relayed' },
      isVerified: verified.has(image.access.registry, digest),
      onVerified: () => verified.add(image.access.registry, digest),
    };
  };

  /** Returns the size of the whole blob, with a HEAD request if neither answer nor manifest has it. */
  const totalOf = async (
    image: PulledImage,
    digest: Digest,
    { answer, total }: Extract<OpenedBlob, { kind: 'bytes' }>,
    expected: number | undefined,
    signal: AbortSignal,
  ): Promise<number> => {
    try {
      const size = total ?? expected ?? (await sizeAt(image, digest, signal));
      checkNotEmpty({ registry: image.access.registry, digest }, size);
      return size;
    } catch (error) {
      answer.body.destroy();
      throw error;
    }
  };

  const openingWhole =
    (image: PulledImage, digest: Digest, size: number | undefined) => async (stop: AbortSignal) => {
      const blob = await relayed(image, digest, size, undefined, 'follow', stop);
      if (blob.kind !== 'stream') throw new Error('a redirect was not followed');
      return blob;
    };

  const uncached = async (
    image: PulledImage,
    digest: Digest,
    known: number | undefined,
    rangeOf: RangeOf | undefined,
    redirects: 'follow' | 'handOn',
    signal: AbortSignal,
  ): Promise<FoundBlob> => {
    const total = known ?? (rangeOf ? await sizeAt(image, digest, signal) : undefined);
    const range = total === undefined ? undefined : rangeOf?.(total);
    const direct = () => relayed(image, digest, total, range, redirects, signal);
    if (range) return direct();
    const { registry: host, repository, credentials } = image.access;
    const key = `relay ${host}/${repository} ${digest} ${credentialKey(credentials)}`;
    const wanted = { digest, openWhole: openingWhole(image, digest, total) };
    return relays.open(key, direct, wanted, total, signal);
  };

  const cached = async (
    image: PulledImage,
    digest: Digest,
    known: number | undefined,
    rangeOf: RangeOf | undefined,
    signal: AbortSignal,
  ): Promise<FoundBlob> => {
    const openWhole = openingWhole(image, digest, known);
    const reader = await cache.join(image.access, digest, openWhole, signal).catch(error => {
      if (!isUnwritable(error)) throw error;
      return undefined;
    });
    // A pull continues if no copy can be kept.
    if (!reader) return uncached(image, digest, known, rangeOf, 'follow', signal);
    try {
      const { start, end } = rangeOf?.(reader.size) ?? { start: 0, end: reader.size - 1 };
      const source = reader.read(start, end);
      return { kind: 'stream', size: reader.size, source, way: 'stored', isVerified: true };
    } catch (error) {
      reader.leave();
      throw error;
    }
  };

  return {
    async head(image, digest, signal) {
      const { member, size } = await keptSize(image, digest);
      return size ?? sizeAt(image, digest, signal, member?.size);
    },

    async open(image, digest, rangeOf, signal) {
      const { member, size } = await keptSize(image, digest);
      const mode = modeOf(image.access.registry);
      const isOfCache = mode === 'cache' && image.access.registry !== ownHost;
      if (size !== undefined) {
        if (isOfCache && !image.owns(digest)) tally.add('cached blobs', 'cache');
        return fromContent(digest, size, rangeOf);
      }
      if (mode === 'cache') {
        if (!member) await registry.headBlob(image.access, digest, signal);
        const isKept = !member && cache.isFrom(digest, image.access);
        const kept = isKept ? await content.size(digest) : undefined;
        tally.add('cached blobs', kept === undefined ? 'registry' : 'cache');
        if (kept !== undefined) return fromContent(digest, kept, rangeOf);
        return cached(image, digest, member?.size, rangeOf, signal);
      }
      const redirects = mode === 'redirect' ? 'handOn' : 'follow';
      return uncached(image, digest, member?.size, rangeOf, redirects, signal);
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

function wrongSize(digest: Digest, size: number, expected: number | undefined): Fault {
  return new Fault(
    'upstream',
    `The registry has ${size} bytes for the blob ${digest}, not ${expected} as its manifest says`,
    { phase: 'upstream' },
  );
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
  return { kind: 'stream', size, source, way: 'stored', isVerified: true };
}
