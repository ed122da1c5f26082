import { cacheOfBytes } from '../../../../foundation/bounded-cache.ts';
import type { RangeReader } from '../../format/read-sif.ts';
import { brokenSif } from '../../format/record.ts';
import type { Decompressor } from './decompress.ts';
import type { SquashfsInode } from './inodes.ts';
import { type Metadata, recordAt } from './metadata.ts';
import type { Superblock } from './superblock.ts';

/** Bytes of content to decompress concurrently. */
const atOnce = 2 * 1024 * 1024;
const keptFragments = 8 * 1024 * 1024;
const notPacked = 0x100_0000;
const sizeBits = 0xff_ffff;

/** The content of the files of a squashfs. */
export interface ContentReader {
  /** Yields the bytes of a file, block by block; only once per inode. Throws a `Fault` for a damaged block. */
  read(inode: SquashfsInode): AsyncGenerator<Buffer>;
}

export function createContentReader(
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
