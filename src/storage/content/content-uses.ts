import type { Digest } from '../../oci/digest.ts';

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
