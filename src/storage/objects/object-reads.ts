import type { Digest } from '../../oci/digest.ts';
import type { ByteSource } from '../content/byte-source.ts';
import { type Checks, type ChecksOptions, createChecks } from '../content/index.ts';
import type { Bucket } from './bucket/bucket.ts';
import { isAbsent } from './bucket/store-faults.ts';
import { keyOf } from './content-keys.ts';
import { type KnownSizes, knownSizes } from './known-sizes.ts';
import { objectSource } from './object-source.ts';

/** How {@link Checks} read a bucket. The version of an object is its ETag. */
export function readsOf(
  bucket: Pick<Bucket, 'fetch'>,
  sizes: KnownSizes,
): Pick<ChecksOptions<string>, 'find' | 'plain'> {
  return {
    async find(digest, mayBeKnown) {
      const found = await (mayBeKnown ? sizes.find(digest) : sizes.ask(digest));
      return found && { size: found.size, version: found.etag };
    },
    plain: (digest, start, end) =>
      objectSource(
        async (from, to, signal) => {
          try {
            return await bucket.fetch(keyOf(digest), from, to, signal);
          } catch (error) {
            if (isAbsent(error)) sizes.forget(digest);
            throw error;
          }
        },
        start,
        end,
      ),
  };
}

/** Reads content of a bucket for clients, and changes nothing there. */
export interface ContentReader {
  /** As in a content store, but damaged content stays. */
  open(digest: Digest, start: number, end: number): ByteSource;
  close(): void;
}

/** @param trustMs how long a check of content counts */
export function createContentReader(bucket: Bucket, trustMs: number): ContentReader {
  const checks: Checks<string> = createChecks({
    ...readsOf(bucket, knownSizes(bucket)),
    // The server that has the rows does it.
    setAside: async () => {},
    trustMs,
  });
  return { open: checks.source, close: () => bucket.close() };
}
