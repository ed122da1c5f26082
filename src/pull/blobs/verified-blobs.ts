import { boundedCache } from '../../foundation/bounded-cache.ts';
import type { Digest } from '../../oci/digest.ts';

/** The blobs of registries that were relayed whole, and whose digest was right, for some time after that. */
export interface VerifiedBlobs {
  add(registry: string, digest: Digest): void;
  has(registry: string, digest: Digest): boolean;
}

const mostBlobs = 10_000;

/** @param trustMs how long a blob counts as verified; 0: never */
export function createVerifiedBlobs(trustMs: number): VerifiedBlobs {
  if (trustMs === 0) return { add() {}, has: () => false };
  const recent = boundedCache<string, true>(mostBlobs, { ttl: trustMs });
  const keyOf = (registry: string, digest: Digest) => `${registry} ${digest}`;
  return {
    // A look does not extend the time; only another check does.
    add: (registry, digest) => void recent.set(keyOf(registry, digest), true),
    has: (registry, digest) => recent.has(keyOf(registry, digest)),
  };
}
