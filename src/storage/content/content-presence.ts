import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../foundation/fault.ts';
import type { Digest } from '../../oci/digest.ts';
import { type ContentUses, longestRemovalMs } from './content-uses.ts';

/**
 * Keeps bytes and their rows in order, for any implementation of a content store: a row is entered before its bytes
 * and deleted after them.
 */
export interface ContentPresence {
  /**
   * Enters content whose bytes are about to be put in place. Waits while the same content is being removed. Returns
   * a function to call when the bytes are in place.
   *
   * @throws {@link Fault} (503) when the removal takes too long; the returned function throws it when the content
   *   was removed meanwhile
   */
  enter(digest: Digest, size: number): Promise<() => Promise<void>>;
  /** Counts content as used now; false when it is not here. Content without a row gets one. */
  claim(digest: Digest): Promise<boolean>;
  /** Removes content that `mark` has marked as `going`; true when its bytes were here. */
  remove(digest: Digest, mark: () => Promise<boolean>): Promise<boolean>;
}

/** The bytes alone. */
export interface ContentBytes {
  size(digest: Digest): Promise<number | undefined>;
  /** Returns false when there were none. */
  remove(digest: Digest): Promise<boolean>;
}

const firstPauseMs = 5;
const longestPauseMs = 500;
const longestWaitMs = 10_000;

export function createContentPresence(uses: ContentUses, bytes: ContentBytes): ContentPresence {
  const remove = async (digest: Digest, mark: () => Promise<boolean>): Promise<boolean> => {
    const began = performance.now();
    if (!(await mark())) return false;
    // A process that was held up leaves the removal to another one, which may have begun already.
    if (performance.now() - began > longestRemovalMs) return false;
    const wasHere = await bytes.remove(digest);
    await uses.forget(digest);
    return wasHere;
  };
  const arrive = async (digest: Digest): Promise<void> => {
    if (!(await uses.arrive(digest))) throw removedMeanwhile(digest);
  };
  /** Content that was here may have been removed before its bytes were put in place again. */
  const stay = async (digest: Digest): Promise<void> => {
    if (!(await uses.isHere(digest))) throw removedMeanwhile(digest);
  };

  return {
    async enter(digest, size) {
      const deadline = performance.now() + longestWaitMs;
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
        const state = await uses.announce(digest, size);
        if (state === 'here') return () => stay(digest);
        if (state === 'coming') return () => arrive(digest);
        if (performance.now() > deadline) throw removedMeanwhile(digest);
        await remove(digest, () => uses.takeOver(digest));
        await sleep(pauseMs);
      }
    },

    async claim(digest) {
      const size = await bytes.size(digest);
      if (size === undefined) return false;
      if (await uses.claim(digest)) return true;
      const state = await uses.announce(digest, size);
      if (state === 'going') return false;
      // The content may have been removed before it was announced, but not since.
      return (await bytes.size(digest)) !== undefined && uses.arrive(digest);
    },

    remove,
  };
}

/** Returns the error for content that was removed while it was brought. */
export function removedMeanwhile(digest: Digest): Fault {
  return new Fault('unavailable', `${digest} is being removed from the store: send it again`, {
    phase: 'store',
    retryAfterSeconds: 1,
  });
}
