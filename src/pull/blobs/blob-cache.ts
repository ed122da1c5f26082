import type { Digest } from '../../oci/digest.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { CachedBlobStore } from '../../storage/rows/index.ts';
import type { Access } from '../../upstream/index.ts';
import type { OpenWhole, TransferReader, Transfers } from './transfers.ts';

/** Keeps copies of upstream blobs, up to a size. One transfer fills the copy and serves all waiting readers. */
export interface BlobCache {
  /**
   * Joins the transfer of a blob, or begins it. Bytes are passed on as they arrive; the last ones only after the digest
   * is verified. Rejects with an error for which `isUnwritable` is true when no copy can be kept, or it
   * was removed again.
   */
  join(
    place: BlobPlace,
    digest: Digest,
    openWhole: OpenWhole,
    signal: AbortSignal,
  ): Promise<TransferReader>;
  /** Returns true for a copy of a blob that this repository, or any repository of this registry, has shown. */
  isFrom(digest: Digest, place: BlobPlace | string): Promise<boolean>;
  /** Records that a repository has the copied blob. */
  shownBy(digest: Digest, place: BlobPlace): void;
  /** Records the use of a cached copy. */
  used(digest: Digest): void;
}

/** The repository through which a blob is pulled. */
export type BlobPlace = Pick<Access, 'registry' | 'repository'>;

export interface BlobCacheDeps {
  readonly content: ContentStore;
  readonly cachedBlobs: CachedBlobStore;
  readonly transfers: Transfers;
  /** Maximum bytes; the least recently used copies beyond it are removed. */
  readonly maxBytes: number;
}

// Copies that a wrong clock dates before the last removed one are found after this time at the latest.
const roundMs = 60_000;

export function createBlobCache({
  content,
  cachedBlobs,
  transfers,
  maxBytes,
}: BlobCacheDeps): BlobCache {
  /** Time of use of the last victim, in ms since the epoch. */
  let reached = 0;
  let roundBegan = performance.now();
  /**
   * Returns the least recently used copy. Continues where the last call ended: from the beginning, a database whose older
   * state somebody reads passes all rows that were removed since.
   */
  const nextVictim = async () => {
    if (performance.now() - roundBegan > roundMs) {
      roundBegan = performance.now();
      reached = 0;
    }
    const victim = (await cachedBlobs.oldest(reached)) ?? (await cachedBlobs.oldest());
    reached = victim?.usedAt ?? 0;
    return victim;
  };
  const sweep = async (): Promise<void> => {
    let total = await cachedBlobs.total();
    while (total > maxBytes) {
      const victim = await nextVictim();
      if (!victim) return;
      await content.remove(victim.digest, () => cachedBlobs.drop(victim.digest));
      total -= victim.size;
    }
  };

  return {
    join(place, digest, openWhole, signal) {
      let wasHere = true;
      const open: OpenWhole = async stop => {
        // Checked before the transfer: later uses of the content adopt it.
        wasHere = (await content.size(digest)) !== undefined;
        return openWhole(stop);
      };
      const onKept = async (size: number) => {
        const places = [place.registry, nameOf(place)];
        await cachedBlobs.enter({ digest, size, places, at: Date.now(), wasHere });
        // Nobody joins a transfer whose copy it may remove.
        void sweep().catch(() => {});
      };
      return transfers.join(keyOf(place, digest), { digest, openWhole: open, onKept }, signal);
    },
    isFrom: (digest, place) =>
      cachedBlobs.isFrom(digest, typeof place === 'string' ? place : nameOf(place)),
    shownBy: (digest, place) => cachedBlobs.addSource(digest, nameOf(place)),
    used(digest) {
      cachedBlobs.touch(digest, Date.now());
    },
  };
}

function nameOf({ registry, repository }: BlobPlace): string {
  return `${registry}/${repository}`;
}

function keyOf(place: BlobPlace, digest: Digest): string {
  return `cache ${nameOf(place)} ${digest}`;
}
