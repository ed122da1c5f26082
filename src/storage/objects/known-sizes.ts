import { boundedCache } from '../../foundation/bounded-cache.ts';
import type { Digest } from '../../oci/digest.ts';
import type { Bucket, FoundObject } from './bucket/bucket.ts';
import { keyOf } from './content-keys.ts';

/** Sizes of content, so that a pull of content that is often pulled asks the store nothing. */
export interface KnownSizes {
  /** Returns what is known, or asks the store. */
  find(digest: Digest): Promise<FoundObject | undefined>;
  /** Asks the store. */
  ask(digest: Digest): Promise<FoundObject | undefined>;
  forget(digest: Digest): void;
}

const entries = 100_000;
// Content never changes, but a command may remove it.
const knownMs = 300_000;

export function knownSizes(bucket: Bucket): KnownSizes {
  const known = boundedCache<Digest, FoundObject>(entries, { ttl: knownMs });
  const ask = async (digest: Digest) => {
    const found = await bucket.head(keyOf(digest));
    if (found) known.set(digest, found);
    else known.delete(digest);
    return found;
  };
  return {
    find: async digest => known.get(digest) ?? ask(digest),
    ask,
    forget: digest => void known.delete(digest),
  };
}
