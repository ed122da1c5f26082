import type { Attributes } from '../../../../archives/index.ts';
import { imageTooLarge } from '../../conversion-limits.ts';
import { brokenSif } from '../../format/record.ts';
import { type Metadata, type MetadataCursor, recordAt, type Superblock } from './metadata.ts';

/** A file in a squashfs, independent of its names. */
export interface SquashfsInode {
  readonly kind: 'directory' | 'file' | 'symlink' | 'device' | 'fifo' | 'socket';
  /** Permissions with setuid, setgid and sticky. */
  readonly mode: number;
  /** Indexes in the table of owners. */
  readonly uid: number;
  readonly gid: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Number of names. Not meaningful for directories. */
  readonly links: number;
  /** Index in the table of attributes; undefined for none. */
  readonly attributes: number | undefined;
  /** Bytes of a file's content, or of a directory's list. */
  readonly size: number;
  /** Target of a symbolic link, one character per byte. */
  readonly target: string;
  /** List of a directory: the block, from the start of the directory table, and the offset in the block. */
  readonly list: { readonly block: number; readonly offset: number };
  /** Set for files only. */
  readonly content: FileContent | undefined;
}

/** Location of a file's content. */
interface FileContent {
  /** Position of the first block. */
  readonly start: number;
  /** Number of blocks. */
  readonly blocks: number;
  /**
   * A cursor on the list of blocks. Each has four bytes: the stored size of the block, with bit 24 set for an
   * uncompressed block; 0 for a block of zeros. A long list takes no memory before it is read.
   */
  readonly list: MetadataCursor;
  /** The shared block that contains the end of the file, and the offset in that block. */
  readonly fragment: { readonly index: number; readonly offset: number } | undefined;
}

const inodeKinds = ['directory', 'file', 'symlink', 'device', 'device', 'fifo', 'socket'] as const;
const noFragment = 0xffff_ffff;
const noAttributes = 0xffff_ffff;
const maxTarget = 4095;

/**
 * Reads the inode at a position: the block, from the start of the inode table, times 65536, plus the offset in the
 * block. Throws a `Fault` for data that violates the format.
 *
 * @param mostBytes maximum size of a file in bytes
 */
export function readInode(
  metadata: Metadata,
  { inodeTable, blockSize }: Pick<Superblock, 'inodeTable' | 'blockSize'>,
  place: number,
  mostBytes: number,
): SquashfsInode {
  const cursor = metadata.cursor(inodeTable + Math.floor(place / 65536), place % 65536);
  const head = cursor.take(16);
  const type = head.readUInt16LE();
  const kind = inodeKinds[(type - 1) % 7];
  if (kind === undefined || type < 1 || type > 14) brokenSif('its squashfs has an unknown file');
  const isExtended = type > 7;
  const common = {
    kind,
    mode: head.readUInt16LE(2) & 0o7777,
    uid: head.readUInt16LE(4),
    gid: head.readUInt16LE(6),
    mtime: head.readUInt32LE(8),
    links: 1,
    attributes: undefined,
    size: 0,
    target: '',
    content: undefined,
    list: { block: 0, offset: 0 },
  };
  const word = () => cursor.take(4).readUInt32LE();
  const attributesOf = (value: number) => (value === noAttributes ? undefined : value);
  switch (kind) {
    case 'directory': {
      const body = cursor.take(isExtended ? 24 : 16);
      return isExtended
        ? {
            ...common,
            size: body.readUInt32LE(4),
            list: { block: body.readUInt32LE(8), offset: body.readUInt16LE(18) },
            attributes: attributesOf(body.readUInt32LE(20)),
          }
        : {
            ...common,
            size: body.readUInt16LE(8),
            list: { block: body.readUInt32LE(0), offset: body.readUInt16LE(10) },
          };
    }
    case 'file': {
      const body = cursor.take(isExtended ? 40 : 16);
      const size = isExtended ? Number(body.readBigUInt64LE(8)) : body.readUInt32LE(12);
      if (size > mostBytes) throw imageTooLarge(`${mostBytes} bytes`);
      const tail = isExtended ? 28 : 4;
      const index = body.readUInt32LE(tail);
      const isWhole = index === noFragment;
      const count = isWhole ? Math.ceil(size / blockSize) : Math.floor(size / blockSize);
      return {
        ...common,
        size,
        ...(isExtended
          ? {
              links: body.readUInt32LE(24),
              attributes: attributesOf(body.readUInt32LE(36)),
            }
          : {}),
        content: {
          start: isExtended ? Number(body.readBigUInt64LE(0)) : body.readUInt32LE(0),
          blocks: count,
          list: cursor,
          fragment: isWhole ? undefined : { index, offset: body.readUInt32LE(tail + 4) },
        },
      };
    }
    case 'symlink': {
      const links = word();
      const length = word();
      if (length > maxTarget) brokenSif('it has a symbolic link that is too long');
      const target = cursor.take(length).toString('latin1');
      return { ...common, links, target };
    }
    default:
      return { ...common, links: word() };
  }
}

/** Returns the ID of a user or group. */
export function ownerAt(table: Buffer, index: number): number {
  if (index * 4 >= table.length) brokenSif('a file of it has an owner that does not exist');
  return table.readUInt32LE(index * 4);
}

const attributePrefixes: Readonly<Record<number, string>> = {
  0: 'user.',
  1: 'trusted.',
  2: 'security.',
};
/** Bytes of one value: the limit of Linux. */
const maxAttributeValue = 64 * 1024;
/** Bytes of one name, without its prefix. */
const maxAttributeName = 255;
/** Bytes of all names and values of a file: readers of tar files accept at most 1 MiB. */
const maxAttributeBytes = 512 * 1024;
const maxAttributes = 1000;
/** Values at other places, each of which may be in a block of its own. */
const maxElsewhere = 100;
const storedElsewhere = 0x100;

/** The extended attributes of a squashfs, by the index that an inode contains. */
interface AttributeTable {
  /** Throws a `Fault` for data that violates the format. */
  of(index: number): Attributes;
}

/** @param at start of the table; undefined if there is no table */
export function readAttributes(metadata: Metadata, at: number | undefined): AttributeTable {
  if (at === undefined) return { of: () => [] };
  const head = metadata.plain(at, 16);
  const values = Number(head.readBigUInt64LE());
  const table = { list: at + 16, count: head.readUInt32LE(8), size: 16 };
  const cursorAt = (place: bigint) =>
    metadata.cursor(values + Number(place >> 16n), Number(place & 0xffffn));

  return {
    of(index) {
      const record = recordAt(metadata, table, index);
      const count = record.readUInt32LE(8);
      if (count > maxAttributes) brokenSif('a file of it has too many attributes');
      const cursor = cursorAt(record.readBigUInt64LE());
      let bytes = 0;
      let elsewhereCount = 0;
      const takeValue = (from: typeof cursor) => {
        const size = from.take(4).readUInt32LE();
        bytes += size;
        if (size > maxAttributeValue || bytes > maxAttributeBytes) {
          brokenSif('a file of it has too long an attribute');
        }
        return from.take(size);
      };
      return Array.from({ length: count }, (): [string, string] => {
        const key = cursor.take(4);
        const type = key.readUInt16LE();
        const nameSize = key.readUInt16LE(2);
        bytes += nameSize;
        if (nameSize > maxAttributeName)
          brokenSif('a file of it has an attribute with too long a name');
        const name = cursor.take(nameSize).toString('latin1');
        const stored = takeValue(cursor);
        const isElsewhere = (type & storedElsewhere) !== 0;
        if (isElsewhere && stored.length !== 8) brokenSif('a file of it has a broken attribute');
        if (isElsewhere) elsewhereCount += 1;
        if (elsewhereCount > maxElsewhere) brokenSif('a file of it has too many attributes');
        const value = isElsewhere ? takeValue(cursorAt(stored.readBigUInt64LE())) : stored;
        return [`${attributePrefixes[type & 0xff] ?? 'unknown.'}${name}`, value.toString('latin1')];
      });
    },
  };
}
