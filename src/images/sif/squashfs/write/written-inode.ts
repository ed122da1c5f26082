/** What is known of the file behind a name while its squashfs is written. */
export interface WrittenInode {
  /** Names of the file. */
  links: number;
  /** Number of the inode, counted from 1; 0 before it has one. */
  number: number;
  /** Place of the inode, as in `MetadataWriter`; -1 before it is written. */
  place: number;
  /** Undefined without content. */
  content: WrittenContent | undefined;
}

/** Where the content of a file is. Files with the same content have it at the same place. */
export interface WrittenContent {
  /** Position of the first block. */
  start: number;
  /** The stored size of each block, with {@link storedBit}; 0 for a block of zeros. */
  blocks: readonly number[];
  /** The fragment that has all of a file shorter than a block, and the offset in it. */
  fragment: number;
  offset: number;
  /** Bytes in blocks of zeros. */
  holes: number;
}

/** Bytes of content in a block: the default of mksquashfs, and so the size in images that Apptainer makes. */
export const blockBytes = 128 * 1024;
/** Set in the size of a block that is stored as it is. */
export const storedBit = 0x100_0000;
export const noFragment = 0xffff_ffff;
