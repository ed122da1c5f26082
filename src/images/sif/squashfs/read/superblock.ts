import { brokenSif, RecordReader } from '../../format/record.ts';

/** Positions of the tables in a squashfs, in bytes from its start. */
export interface Superblock {
  /** Seconds since the epoch. */
  readonly time: number;
  /** Bytes of content in a full block. */
  readonly blockSize: number;
  readonly compressor: number;
  readonly fragmentCount: number;
  readonly idCount: number;
  /** Bytes of the whole file system. */
  readonly size: number;
  /** Position of the inode, see `readInode`. */
  readonly rootInode: number;
  readonly idTable: number;
  /** Undefined if no file has extended attributes. */
  readonly attributeTable: number | undefined;
  readonly inodeTable: number;
  readonly directoryTable: number;
  /** Undefined if no file ends in a fragment. */
  readonly fragmentTable: number | undefined;
}

export const superblockSize = 96;

const magic = 0x73717368;
const none = 0xffff_ffff_ffff_ffffn;
const minBlockSize = 4096;
const maxBlockSize = 1024 * 1024;

/**
 * Reads a superblock. Throws a `Fault` if it is not squashfs 4.0, and for positions outside the file.
 * Source: Linux, Documentation/filesystems/squashfs.rst, and fs/squashfs/squashfs_fs.h.
 *
 * @param available bytes available
 */
export function readSuperblock(bytes: Buffer, available: number): Superblock {
  if (bytes.length < superblockSize || bytes.readUInt32LE() !== magic) {
    brokenSif('it has no squashfs where its table says');
  }
  const reader = new RecordReader(bytes);
  reader.skip(2 * 4);
  const time = reader.word();
  const blockSize = reader.word();
  const fragmentCount = reader.word();
  const [compressor, blockLog, , idCount, major] = [20, 22, 24, 26, 28].map(at =>
    bytes.readUInt16LE(at),
  ) as [number, number, number, number, number];
  const isBlockSize = blockSize >= minBlockSize && blockSize <= maxBlockSize;
  if (major !== 4 || !isBlockSize || 2 ** blockLog !== blockSize) {
    brokenSif('its squashfs is not of version 4.0');
  }
  reader.skip(6 * 2);
  const rootInode = reader.number('the place of the root directory');
  const size = reader.number('the size of its squashfs');
  if (size > available) brokenSif('it ends before its squashfs does');
  const place = (at: number) => {
    const value = bytes.readBigUInt64LE(at);
    if (value === none) return undefined;
    if (value < superblockSize || value > size) brokenSif('a table is outside of its squashfs');
    return Number(value);
  };
  const required = (at: number) => place(at) ?? brokenSif('its squashfs has no files');
  return {
    time,
    blockSize,
    compressor,
    fragmentCount,
    idCount,
    size,
    rootInode,
    idTable: required(48),
    attributeTable: place(56),
    inodeTable: required(64),
    directoryTable: required(72),
    fragmentTable: fragmentCount === 0 ? undefined : place(80),
  };
}
