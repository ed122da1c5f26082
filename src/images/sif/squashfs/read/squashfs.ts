import type { RangeReader } from '../../format/read-sif.ts';
import { brokenSif } from '../../format/record.ts';
import { imageTooLarge } from '../../limits.ts';
import type { Attributes } from '../../tar/tar-entry.ts';
import { readAttributes } from './attributes.ts';
import { createContentReader } from './content.ts';
import { decompressorOf } from './decompress.ts';
import { readDirectory } from './directories.ts';
import { ownerAt, readInode, type SquashfsInode } from './inodes.ts';
import { Metadata, recordAt } from './metadata.ts';
import { readSuperblock, superblockSize } from './superblock.ts';

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
/** The limit of Linux: PATH_MAX. */
const maxPath = 4095;

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
