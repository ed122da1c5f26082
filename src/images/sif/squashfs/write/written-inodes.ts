/** Where the content of a file of a block or more is. Files with the same content have it at the same place. */
export interface LongContent {
  /** Position of the first block. */
  start: number;
  /** The stored size of each block, with {@link storedBit}; 0 for a block of zeros. */
  blocks: readonly number[];
  /** Bytes in blocks of zeros. */
  holes: number;
}

/** Bytes of content in a block: the default of mksquashfs, and so the size in images that Apptainer makes. */
export const blockBytes = 128 * 1024;
/** Set in the size of a block that is stored as it is. */
export const storedBit = 0x100_0000;
export const noFragment = 0xffff_ffff;

/**
 * What is known of each inode while its squashfs is written, by its index. It is in arrays outside the heap, whose memory
 * is used when it is written: objects would take as much as the tree again.
 */
export class WrittenInodes {
  /** Names of each. */
  readonly links: Uint32Array;
  /** Numbers in the squashfs, counted from 1; 0 before an inode has one. */
  readonly numbers: Uint32Array;
  /** Long files; all others with content are in fragments. */
  readonly long = new Map<number, LongContent>();
  /** Offsets of short files in their fragments. */
  readonly offsets: Uint32Array;
  readonly #fragments: Uint32Array;
  /** Places by number, plus 1; 0 before an inode has one. */
  readonly #places: Float64Array;
  #count = 0;

  /** @param most number of inodes, or more */
  constructor(most: number) {
    this.links = new Uint32Array(most);
    this.numbers = new Uint32Array(most);
    this.offsets = new Uint32Array(most);
    this.#fragments = new Uint32Array(most);
    this.#places = new Float64Array(most);
  }

  /** Returns the index of an inode. The first call gives it one. */
  indexOf(inode: { written?: number | undefined }): number {
    if (inode.written === undefined) {
      inode.written = this.#count;
      this.#count += 1;
    }
    return inode.written;
  }

  /** Returns the fragment of a short file, or {@link noFragment}. */
  fragmentOf(index: number): number {
    return this.#fragments[index] ? this.#fragments[index] - 1 : noFragment;
  }

  setFragment(index: number, fragment: number, offset: number): void {
    this.#fragments[index] = fragment + 1;
    this.offsets[index] = offset;
  }

  /** Returns the place of the inode with a number, as in `MetadataWriter`; -1 before it is written. */
  placeOf(number: number): number {
    return (this.#places[number - 1] ?? 0) - 1;
  }

  setPlace(number: number, place: number): void {
    this.#places[number - 1] = place + 1;
  }
}
