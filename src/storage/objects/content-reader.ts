import { cacheOfBytes } from '../../foundation/bounded-cache.ts';
import { type Digest, digestOf, splitDigest } from '../../oci/digest.ts';
import { type ByteSource, sourceOfBytes } from '../content/byte-source.ts';
import { type ContentStore, chosenLater, createChecks } from '../content/index.ts';
import { createBlobLinks } from './blob-links.ts';
import type { Bucket } from './bucket.ts';
import { keyOf, knownSizes, readsOf } from './object-reads.ts';

/** Reads content of a bucket for clients, and changes nothing there. */
export interface ContentReader
  extends Pick<ContentStore, 'size' | 'read' | 'hasLinks' | 'link' | 'isFresh'> {
  /** As in a content store, but damaged content stays. */
  open(digest: Digest, start: number, end: number): ByteSource;
  close(): void;
}

export interface ContentReaderOptions {
  /** How long a check of content counts (ms). */
  readonly trustMs: number;
  /** Clients read large content from the store themselves. */
  readonly hasLinks: boolean;
}

// Small content, such as the config of an image, is read whole and kept: it never changes.
const mostSmallBytes = 256 * 1024;
const keptBytes = 32 * 1024 * 1024;

export function createContentReader(
  bucket: Bucket,
  { trustMs, hasLinks }: ContentReaderOptions,
): ContentReader {
  const sizes = knownSizes(bucket);
  const links = createBlobLinks(bucket);
  const checks = createChecks<string>({
    ...readsOf(bucket, sizes),
    // The server that has the rows does it.
    setAside: async () => {},
    trustMs,
  });
  const small = cacheOfBytes<Digest, Buffer>(keptBytes, ({ length }) => length + 200);

  const read = async (digest: Digest): Promise<Buffer | undefined> => {
    const kept = small.get(digest);
    if (kept) return kept;
    const bytes = await bucket.read(keyOf(digest));
    if (!bytes || digestOf(bytes, splitDigest(digest).algorithm) !== digest) {
      sizes.forget(digest);
      return undefined;
    }
    if (bytes.length < mostSmallBytes) small.set(digest, bytes);
    return bytes;
  };

  return {
    size: async digest => small.peek(digest)?.length ?? (await sizes.find(digest))?.size,
    read,
    open: (digest, start, end) =>
      chosenLater(async () => {
        const size = small.peek(digest)?.length ?? (await sizes.find(digest))?.size;
        const bytes = size !== undefined && size < mostSmallBytes ? await read(digest) : undefined;
        return bytes
          ? sourceOfBytes(bytes.subarray(start, end + 1))
          : checks.source(digest, start, end);
      }),
    hasLinks,
    // A redirect requires a check by this server: the first client gets the bytes, which are checked on the way.
    link: async (digest, size) =>
      hasLinks && checks.isFresh(digest) ? links.link(digest, size) : undefined,
    isFresh: checks.isFresh,
    close: () => bucket.close(),
  };
}
