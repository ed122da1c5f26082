import { boundedCache } from '../../foundation/bounded-cache.ts';
import type { Digest } from '../../oci/digest.ts';
import type { Bucket } from './bucket.ts';
import { keyOf } from './object-reads.ts';

/** Addresses at which clients read content from the store themselves. */
export interface BlobLinks {
  /** Returns an address that anyone can read for some minutes; undefined for content that is too small for a redirect. */
  link(digest: Digest, size: number): Promise<URL | undefined>;
}

// Time to begin to read. The store finishes what it has begun.
const linkSeconds = 1200;
// A crowd that pulls one image gets one signature. Well below the time that temporary credentials have left at least.
const reusedMs = 120_000;
const entries = 10_000;
// A redirect costs a connection to another host. Below this size the bytes take less time.
const fewestBytes = 1024 ** 2;

export function createBlobLinks(bucket: Pick<Bucket, 'link'>): BlobLinks {
  const recent = boundedCache<Digest, Promise<URL>>(entries, { ttl: reusedMs });
  return {
    async link(digest, size) {
      if (size < fewestBytes) return undefined;
      const known = recent.get(digest);
      if (known) return known;
      const made = bucket.link(keyOf(digest), linkSeconds);
      recent.set(digest, made);
      made.catch(() => recent.delete(digest));
      return made;
    },
  };
}
