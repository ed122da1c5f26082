import type { Inode } from '../../layers/tree.ts';
import type { LongContent } from './written-inodes.ts';

/** Numbers of the kinds of inodes. An extended inode has a number higher by 7. */
export const inodeTypes = {
  directory: 1,
  file: 2,
  symlink: 3,
  'block-device': 4,
  'character-device': 5,
  fifo: 6,
} as const satisfies Record<Inode['kind'], number>;

const extended = 7;
export const noAttributes = 0xffff_ffff;
const max32 = 2 ** 32 - 1;
const maxShortDirectory = 2 ** 16 - 1;

/** What all inodes have. */
export interface InodeHead {
  readonly inode: Pick<Inode, 'kind' | 'mode' | 'mtime'>;
  readonly number: number;
  readonly links: number;
  /** Index in the table of attributes, or {@link noAttributes}. */
  readonly attributes: number;
}

/** A part of a directory's list, for a reader that looks for one name. */
export interface DirectoryIndex {
  /** Bytes of the list before it. */
  readonly at: number;
  /** The block in which it begins, from the start of the directory table. */
  readonly block: number;
  /** Its first name, one character per byte. */
  readonly name: string;
}

export interface DirectoryList {
  /** Bytes. */
  readonly size: number;
  /** Place of its beginning: the block, from the start of the directory table, and the offset in it. */
  readonly block: number;
  readonly offset: number;
  readonly indexes: readonly DirectoryIndex[];
}

/** The list is said to contain `.` and `..`, and does not. */
const dots = 3;

/** Source of all records: Linux, fs/squashfs/squashfs_fs.h. */
export function directoryRecord(
  head: InodeHead,
  { size, block, offset, indexes }: DirectoryList,
  parent: number,
): Buffer {
  const listed = size + dots;
  const isShort =
    indexes.length === 0 && listed <= maxShortDirectory && head.attributes === noAttributes;
  if (isShort) {
    const record = recordOf(head, 16, 0);
    record.writeUInt32LE(block, 16);
    record.writeUInt32LE(head.links, 20);
    record.writeUInt16LE(listed, 24);
    record.writeUInt16LE(offset, 26);
    record.writeUInt32LE(parent, 28);
    return record;
  }
  const record = recordOf(head, 24, extended);
  record.writeUInt32LE(head.links, 16);
  record.writeUInt32LE(listed, 20);
  record.writeUInt32LE(block, 24);
  record.writeUInt32LE(parent, 28);
  record.writeUInt16LE(indexes.length, 32);
  record.writeUInt16LE(offset, 34);
  record.writeUInt32LE(head.attributes, 36);
  return Buffer.concat([record, ...indexes.map(indexRecord)]);
}

function indexRecord({ at, block, name }: DirectoryIndex): Buffer {
  const record = Buffer.alloc(12 + name.length);
  record.writeUInt32LE(at);
  record.writeUInt32LE(block, 4);
  record.writeUInt32LE(name.length - 1, 8);
  record.write(name, 12, 'latin1');
  return record;
}

/** Where the content of a file is: in blocks, or in a fragment. An empty file has neither. */
export interface FilePlace {
  readonly long: LongContent | undefined;
  readonly fragment: number;
  readonly offset: number;
}

export function fileRecord(
  head: InodeHead,
  size: number,
  { long, fragment, offset }: FilePlace,
): Buffer {
  const { start = 0, blocks = [], holes = 0 } = long ?? {};
  const isShort =
    head.links === 1 &&
    head.attributes === noAttributes &&
    holes === 0 &&
    size <= max32 &&
    start <= max32;
  const fixed = isShort ? 16 : 40;
  const record = recordOf(head, fixed + 4 * blocks.length, isShort ? 0 : extended);
  if (isShort) {
    record.writeUInt32LE(start, 16);
    record.writeUInt32LE(fragment, 20);
    record.writeUInt32LE(offset, 24);
    record.writeUInt32LE(size, 28);
  } else {
    record.writeBigUInt64LE(BigInt(start), 16);
    record.writeBigUInt64LE(BigInt(size), 24);
    record.writeBigUInt64LE(BigInt(holes), 32);
    record.writeUInt32LE(head.links, 40);
    record.writeUInt32LE(fragment, 44);
    record.writeUInt32LE(offset, 48);
    record.writeUInt32LE(head.attributes, 52);
  }
  let at = 16 + fixed;
  for (const word of blocks) at = record.writeUInt32LE(word, at);
  return record;
}

export function symlinkRecord(head: InodeHead, target: string): Buffer {
  const record = recordOf(head, 8 + target.length, 0);
  record.writeUInt32LE(head.links, 16);
  record.writeUInt32LE(target.length, 20);
  record.write(target, 24, 'latin1');
  return record;
}

export function deviceRecord(
  head: InodeHead,
  { major, minor }: NonNullable<Inode['device']>,
): Buffer {
  const record = recordOf(head, 8, 0);
  record.writeUInt32LE(head.links, 16);
  // Linux has 12 bits for the major and 20 bits for the minor number. Source: Linux, include/linux/kdev_t.h.
  const high = (minor & 0xfff00) << 12;
  record.writeUInt32LE((high | ((major & 0xfff) << 8) | (minor & 0xff)) >>> 0, 20);
  return record;
}

export function fifoRecord(head: InodeHead): Buffer {
  const record = recordOf(head, 4, 0);
  record.writeUInt32LE(head.links, 16);
  return record;
}

/** Returns a time as a squashfs stores it, in 32 bits: the nearest one. */
export function storedTime(seconds: number): number {
  return Math.min(Math.max(seconds, 0), max32);
}

const headBytes = 16;
const modeBits = 0o7777;

/** Returns a record with its head. User and group are the only ones in the table: 0. */
function recordOf(
  { inode: { kind, mode, mtime }, number }: InodeHead,
  bytes: number,
  more: number,
): Buffer {
  const record = Buffer.allocUnsafe(headBytes + bytes);
  record.writeUInt16LE(inodeTypes[kind] + more);
  record.writeUInt16LE(mode & modeBits, 2);
  record.writeUInt32LE(0, 4);
  record.writeUInt32LE(storedTime(mtime), 8);
  record.writeUInt32LE(number, 12);
  return record;
}
