import type { Digest } from '../../oci/digest.ts';
import type { ByteSource } from '../content/byte-source.ts';
import type { ContentStore } from '../content/index.ts';

/** Copies of content on this machine, for programs that need a file. The least recently used go first. */
export interface LocalCopies {
  has(digest: Digest): boolean;
  /** Keeps a copy in place, also one that is about to come, until the returned value is disposed of. */
  pin(digest: Digest): AsyncDisposable;
  /** Counts a copy that is in place. */
  add(digest: Digest, size: number): void;
  /** Forgets a copy whose file is gone. */
  forget(digest: Digest): void;
  /** Removes a copy once nobody uses it. */
  drop(digest: Digest): Promise<void>;
}

/**
 * @param local the store of the copies
 * @param maxBytes bytes of copies that nobody uses; `Infinity` never removes one
 */
export function createLocalCopies(local: ContentStore, maxBytes: number): LocalCopies {
  /** The least recently used first. */
  const sizes = new Map<Digest, number>();
  const pins = new Map<Digest, number>();
  const doomed = new Set<Digest>();
  let bytes = 0;

  const forget = (digest: Digest): void => {
    bytes -= sizes.get(digest) ?? 0;
    sizes.delete(digest);
    doomed.delete(digest);
  };
  const remove = async (digest: Digest): Promise<void> => {
    forget(digest);
    await local.discard(digest);
  };
  const evict = async (): Promise<void> => {
    for (const digest of sizes.keys()) {
      if (bytes <= maxBytes) return;
      if (!pins.has(digest)) await remove(digest);
    }
  };
  const unpin = async (digest: Digest): Promise<void> => {
    const left = (pins.get(digest) ?? 1) - 1;
    if (left > 0) {
      pins.set(digest, left);
      return;
    }
    pins.delete(digest);
    if (doomed.has(digest)) await remove(digest);
    await evict();
  };

  return {
    has: digest => sizes.has(digest) && !doomed.has(digest),

    pin(digest) {
      pins.set(digest, (pins.get(digest) ?? 0) + 1);
      const size = sizes.get(digest);
      if (size !== undefined) {
        sizes.delete(digest);
        sizes.set(digest, size);
      }
      let isPinned = true;
      return {
        async [Symbol.asyncDispose]() {
          if (!isPinned) return;
          isPinned = false;
          await unpin(digest);
        },
      };
    },

    add(digest, size) {
      forget(digest);
      sizes.set(digest, size);
      bytes += size;
    },

    forget,

    async drop(digest) {
      if (!sizes.has(digest)) return;
      if (pins.has(digest)) doomed.add(digest);
      else await remove(digest);
    },
  };
}

/** Returns the source of a copy that stays in place until the source has opened its file. */
export function pinnedSource(source: ByteSource, pin: AsyncDisposable): ByteSource {
  // A copy that cannot be removed now is removed with the next one.
  const release = (): void => void pin[Symbol.asyncDispose]().then(undefined, () => {});
  return {
    read: () => source.read().finally(release),
    destroy(reason) {
      source.destroy(reason);
      release();
    },
  };
}
