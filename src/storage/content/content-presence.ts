import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../foundation/fault.ts';
import type { Digest } from '../../oci/digest.ts';

/**
 * Keeps bytes and their rows in order, for any implementation of a content store: a row is entered before its bytes
 * and deleted after them.
 */
interface ContentPresence {
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
interface ContentBytes {
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

/** `coming`: its bytes may be incomplete. `going`: its bytes are being removed. */
export type ContentState = 'coming' | 'here' | 'going';

/**
 * Says which content is here and when it was used last, for all processes. The row of a content is entered before its
 * bytes and deleted after them, so that no two processes add and remove the same content at the same time. See
 * docs/adr/0035-rows-say-what-is-used.md.
 */
export interface ContentUses {
  /**
   * Enters content that is about to be put in place, and counts it as used now. Returns its state; content that is
   * `going` stays as it is, and nothing may be put in its place.
   */
  announce(digest: Digest, size: number): Promise<ContentState>;
  /** True for content that is `here`. */
  isHere(digest: Digest): Promise<boolean>;
  /** Notes that announced content is in place; false when it has been removed since it was announced. */
  arrive(digest: Digest): Promise<boolean>;
  /** Counts content that is `here` as used now; false for all other content. */
  claim(digest: Digest): Promise<boolean>;
  /** Marks content as `going`, even when something needs it; false when it is `going` already. */
  condemn(digest: Digest): Promise<boolean>;
  /** Takes over a removal that its process has not finished within a minute; false when there is none. */
  takeOver(digest: Digest): Promise<boolean>;
  /** Forgets content that was `going` and whose bytes are gone. */
  forget(digest: Digest): Promise<void>;
}

/** For a store without rows, such as a backup, which one process writes and nobody sweeps. */
export const withoutRows: ContentUses = {
  announce: async () => 'here',
  isHere: async () => true,
  arrive: async () => true,
  claim: async () => true,
  condemn: async () => true,
  takeOver: async () => false,
  async forget() {},
};

/**
 * A process removes bytes within this time after it has marked them as `going` (ms). After that it does not remove
 * them.
 */
export const longestRemovalMs = 10_000;
/** A removal that is older has lost its process, and another one may take it over (ms). */
export const abandonedRemovalMs = 60_000;
/** Content that was announced longer ago will not arrive any more (ms). */
export const abandonedArrivalMs = 3_600_000;
