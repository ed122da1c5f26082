import type { Attributes } from '../../../../archives/index.ts';
import { maxPathBytes } from '../../../../archives/tar-limits.ts';
import { cacheOfBytes } from '../../../../foundation/bounded-cache.ts';
import { imageTooLarge } from '../../conversion-limits.ts';
import type { RangeReader } from '../../format/read-sif.ts';
import { brokenSif } from '../../format/record.ts';
import { ownerAt, readAttributes, readInode, type SquashfsInode } from './inodes.ts';
import {
  type Decompressor,
  decompressorOf,
  Metadata,
  readSuperblock,
  recordAt,
  type Superblock,
  superblockSize,
} from './metadata.ts';

/** A name in a squashfs, and its inode. */
export interface SquashfsEntry {
  /** Path from the root without a leading slash, one character per byte. Empty for the root. */
  readonly path: string;
  readonly inode: SquashfsInode;
  /** Position of the inode: the same for all names of one file. */
  readonly place: number;
}

/** A squashfs that is open for reading. All methods throw a `Fault` for data that violates the format. */
export interface Squashfs {
  /** Seconds since the epoch. */
  readonly time: number;
  /** Yields every name, each directory before its content. Throws a `Fault` above the limit. */
  entries(maxEntries: number): Generator<SquashfsEntry>;
  content(inode: SquashfsInode): AsyncGenerator<Buffer>;
  attributes(inode: SquashfsInode): Attributes;
  owner(inode: SquashfsInode): { readonly uid: number; readonly gid: number };
}

/** Maximum bytes of metadata, which is kept in memory. */
const maxMetadata = 64 * 1024 * 1024;
const maxOwners = 65_536;
/** Without the zero at its end. */
const maxPath = maxPathBytes - 1;

/**
 * Opens a squashfs. Its files can be read in any order. The data is untrusted: it may come from anybody.
 * Throws a `Fault` for a broken squashfs, and for an unsupported compression.
 *
 * @param available bytes available
 * @param mostBytes maximum size of a file in bytes
 */
export async function openSquashfs(
  read: RangeReader,
  available: number,
  mostBytes: number,
): Promise<Squashfs> {
  const superblock = readSuperblock(await read(0, superblockSize), available);
  const { inodeTable, directoryTable, idTable, idCount, size } = superblock;
  const decompressor = decompressorOf(superblock.compressor);
  if (size - inodeTable > maxMetadata) throw imageTooLarge(`${maxMetadata} bytes of file names`);
  const described = await read(inodeTable, size - inodeTable);
  const metadata = new Metadata(described, inodeTable, decompressor);
  if (idCount > maxOwners) brokenSif('its squashfs has too many owners');
  const ids = { list: idTable, count: idCount, size: 4 };
  const owners = Buffer.concat(
    Array.from({ length: idCount }, (_, index) => recordAt(metadata, ids, index)),
  );
  const table = readAttributes(metadata, superblock.attributeTable);
  const { read: content } = createContentReader(read, metadata, superblock, decompressor);

  const inodeAt = (place: number) => readInode(metadata, superblock, place, mostBytes);

  return {
    time: superblock.time,
    content,
    attributes: ({ attributes }) => (attributes === undefined ? [] : table.of(attributes)),
    owner: ({ uid, gid }) => ({ uid: ownerAt(owners, uid), gid: ownerAt(owners, gid) }),

    *entries(maxEntries) {
      const root = inodeAt(superblock.rootInode);
      if (root.kind !== 'directory') brokenSif('the root of its squashfs is not a directory');
      const seen = new Set([superblock.rootInode]);
      const open = [{ path: '', names: readDirectory(metadata, directoryTable, root) }];
      yield { path: '', inode: root, place: superblock.rootInode };
      let count = 1;
      for (let at = open.at(-1); at; at = open.at(-1)) {
        const { done, value } = at.names.next();
        if (done) {
          open.pop();
          continue;
        }
        count += 1;
        if (count > maxEntries) throw imageTooLarge(`${maxEntries} files`, 'maxEntries');
        const path = at.path === '' ? value.name : `${at.path}/${value.name}`;
        if (path.length > maxPath) brokenSif(`it has a path longer than ${maxPath} bytes`);
        const inode = inodeAt(value.inode);
        yield { path, inode, place: value.inode };
        if (inode.kind !== 'directory') continue;
        // A directory must have one parent only: a cycle would never end.
        if (seen.has(value.inode)) brokenSif('a directory of it is in two places');
        seen.add(value.inode);
        open.push({ path, names: readDirectory(metadata, directoryTable, inode) });
      }
    },
  };
}

/** A name in a directory. */
interface DirectoryEntry {
  /** One character per byte. */
  readonly name: string;
  /** Position of the inode, see `readInode`. */
  readonly inode: number;
}

/** The size of a list counts `.` and `..`, which the list does not contain. */
const dots = 3;
const maxRun = 256;
const maxName = 255;

/** Yields the names of a directory. Throws a `Fault` for invalid data, and for a name that leads elsewhere. */
function* readDirectory(
  metadata: Metadata,
  directoryTable: number,
  { size, list }: Pick<SquashfsInode, 'size' | 'list'>,
): Generator<DirectoryEntry> {
  let rest = size - dots;
  if (rest <= 0) return;
  const cursor = metadata.cursor(directoryTable + list.block, list.offset);
  const take = (length: number) => {
    rest -= length;
    if (rest < 0) brokenSif('a directory of it is longer than it says');
    return cursor.take(length);
  };
  let previous = '';
  while (rest > 0) {
    const head = take(12);
    const count = head.readUInt32LE() + 1;
    const block = head.readUInt32LE(4);
    if (count > maxRun) brokenSif('a directory of it has too long a list');
    for (let index = 0; index < count; index += 1) {
      const entry = take(8);
      const length = entry.readUInt16LE(6) + 1;
      if (length > maxName) brokenSif(`it has a name longer than ${maxName} bytes`);
      const name = take(length).toString('latin1');
      if (/[/\0]/.test(name) || name === '.' || name === '..') {
        brokenSif('it has a name that leads out of its directory');
      }
      // Names must be sorted, so no name can occur twice.
      if (previous !== '' && name <= previous) brokenSif('a directory of it is not sorted');
      previous = name;
      yield { name, inode: block * 65536 + entry.readUInt16LE(0) };
    }
  }
}

/** Bytes of content to decompress concurrently. */
const atOnce = 2 * 1024 * 1024;
const keptFragments = 8 * 1024 * 1024;
const notPacked = 0x100_0000;
const sizeBits = 0xff_ffff;

/** The content of the files of a squashfs. */
interface ContentReader {
  /** Yields the bytes of a file, block by block; only once per inode. Throws a `Fault` for a damaged block. */
  read(inode: SquashfsInode): AsyncGenerator<Buffer>;
}

function createContentReader(
  read: RangeReader,
  metadata: Metadata,
  { blockSize, fragmentTable, fragmentCount, size: end }: Superblock,
  decompressor: Decompressor,
): ContentReader {
  const fragments = cacheOfBytes<number, Buffer>(keptFragments, ({ length }) => length);
  const zeros = Buffer.alloc(blockSize);

  const unpack = async (word: number, stored: Buffer, expected: number): Promise<Buffer> => {
    if (word === 0) return zeros.subarray(0, expected);
    const isPacked = (word & notPacked) === 0;
    const block = isPacked ? await decompressor.whole(stored, blockSize) : stored;
    if (block.length !== expected) brokenSif('a block of its squashfs has the wrong size');
    return block;
  };

  const bytesAt = async (offset: number, length: number): Promise<Buffer> => {
    if (offset + length > end) brokenSif('a block of its squashfs is outside of it');
    const bytes = await read(offset, length);
    if (bytes.length < length) brokenSif('it ends before its squashfs does');
    return bytes;
  };

  const fragmentAt = async (index: number): Promise<Buffer> => {
    const kept = fragments.get(index);
    if (kept) return kept;
    if (fragmentTable === undefined) brokenSif('its squashfs has no table of fragments');
    const table = { list: fragmentTable, count: fragmentCount, size: 16 };
    const record = recordAt(metadata, table, index);
    const word = record.readUInt32LE(8);
    const length = storedBytes(word, blockSize);
    const stored = await bytesAt(Number(record.readBigUInt64LE()), length);
    const isPacked = (word & notPacked) === 0;
    const block = isPacked ? await decompressor.whole(stored, blockSize) : stored;
    fragments.set(index, block);
    return block;
  };

  return {
    async *read({ size, content }) {
      if (!content) return;
      const { blocks, list, fragment } = content;
      let place = content.start;
      let rest = size;
      const run = Math.max(1, Math.floor(atOnce / blockSize));
      for (let first = 0; first < blocks; first += run) {
        const count = Math.min(run, blocks - first);
        const listed = list.take(4 * count);
        const words = Array.from({ length: count }, (_, index) => listed.readUInt32LE(4 * index));
        const lengths = words.map(word => storedBytes(word, blockSize));
        const total = lengths.reduce((sum, length) => sum + length, 0);
        const stored = total === 0 ? Buffer.alloc(0) : await bytesAt(place, total);
        place += total;
        let at = 0;
        const unpacked = words.map((word, index) => {
          const length = lengths[index] ?? 0;
          const expected = Math.min(rest, blockSize);
          rest -= expected;
          at += length;
          return unpack(word, stored.subarray(at - length, at), expected);
        });
        yield* await Promise.all(unpacked);
      }
      if (!fragment || rest === 0) return;
      const block = await fragmentAt(fragment.index);
      if (fragment.offset + rest > block.length) brokenSif('a file of it ends in a wrong place');
      yield block.subarray(fragment.offset, fragment.offset + rest);
    },
  };
}

/** Returns the stored size of a block in bytes, which never exceeds the size of its content. */
function storedBytes(word: number, blockSize: number): number {
  const length = word & sizeBits;
  if (length > blockSize) brokenSif('a block of its squashfs is too large');
  return length;
}
