import { promisify } from 'node:util';
import {
  inflate,
  inflateSync,
  type ZlibOptions,
  type ZstdOptions,
  zstdDecompress,
  zstdDecompressSync,
} from 'node:zlib';
import { boundedCache } from '../../../../foundation/bounded-cache.ts';
import { Fault } from '../../../../foundation/fault.ts';
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

const superblockMagic = 0x73717368;
const noTable = 0xffff_ffff_ffff_ffffn;
const minBlockSize = 4096;
const maxBlockSize = 1024 * 1024;

/**
 * Reads a superblock. Throws a `Fault` if it is not squashfs 4.0, and for positions outside the file.
 * Source: Linux, Documentation/filesystems/squashfs.rst, and fs/squashfs/squashfs_fs.h.
 *
 * @param available bytes available
 */
export function readSuperblock(bytes: Buffer, available: number): Superblock {
  if (bytes.length < superblockSize || bytes.readUInt32LE() !== superblockMagic) {
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
    if (value === noTable) return undefined;
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

/** Bytes of a full block after decompression. */
const blockBytes = 8192;
const keptBlocks = 512;

interface Block {
  readonly bytes: Buffer;
  /** Start of the next block. */
  readonly end: number;
}

/** The part of a squashfs that describes its files: a sequence of compressed blocks of 8 KiB each. */
export class Metadata {
  readonly #bytes: Buffer;
  readonly #start: number;
  readonly #decompressor: Decompressor;
  readonly #blocks = boundedCache<number, Block>(keptBlocks);

  /** @param start position of the bytes in the squashfs */
  constructor(bytes: Buffer, start: number, decompressor: Decompressor) {
    this.#bytes = bytes;
    this.#start = start;
    this.#decompressor = decompressor;
  }

  /** Returns a cursor at an offset in the block that starts at byte `block` of the squashfs. */
  cursor(block: number, offset: number): MetadataCursor {
    return new MetadataCursor(at => this.#blockAt(at), block, offset);
  }

  /** Returns uncompressed bytes. */
  plain(at: number, length: number): Buffer {
    const from = at - this.#start;
    if (from < 0 || from + length > this.#bytes.length) brokenSif('its squashfs is cut short');
    return this.#bytes.subarray(from, from + length);
  }

  #blockAt(at: number): Block {
    const kept = this.#blocks.get(at);
    if (kept) return kept;
    const header = this.plain(at, 2).readUInt16LE();
    const size = header & 0x7fff;
    const packed = this.plain(at + 2, size);
    const isPacked = (header & 0x8000) === 0;
    const bytes = isPacked ? this.#decompressor.now(packed, blockBytes) : packed;
    if (bytes.length === 0) brokenSif('its squashfs has an empty block');
    const block = { bytes, end: at + 2 + size };
    this.#blocks.set(at, block);
    return block;
  }
}

/** A position in the metadata of a squashfs. Each read advances it. */
export class MetadataCursor {
  readonly #blockAt: (at: number) => Block;
  #block: Block;
  #offset: number;

  constructor(blockAt: (at: number) => Block, at: number, offset: number) {
    this.#blockAt = blockAt;
    this.#block = blockAt(at);
    this.#offset = offset;
    if (offset > this.#block.bytes.length) brokenSif('its squashfs leads to nowhere');
  }

  /** Returns the next bytes: a view that the caller must not change. */
  take(length: number): Buffer {
    const end = this.#offset + length;
    if (end <= this.#block.bytes.length) {
      const bytes = this.#block.bytes.subarray(this.#offset, end);
      this.#offset = end;
      return bytes;
    }
    const parts: Buffer[] = [];
    for (let missing = length; missing > 0; ) {
      if (this.#offset === this.#block.bytes.length) {
        // Only the last block of a table is shorter. Many tiny ones would hold the event loop.
        if (this.#offset < blockBytes) brokenSif('its squashfs has a short block');
        this.#block = this.#blockAt(this.#block.end);
        this.#offset = 0;
      }
      const part = this.#block.bytes.subarray(this.#offset, this.#offset + missing);
      this.#offset += part.length;
      missing -= part.length;
      parts.push(part);
    }
    return Buffer.concat(parts);
  }
}

/** Returns a record of a table. The records have one size; a list contains the positions of their blocks. */
export function recordAt(
  metadata: Metadata,
  { list, count, size }: { readonly list: number; readonly count: number; readonly size: number },
  index: number,
): Buffer {
  if (index >= count) brokenSif('its squashfs refers to a record that does not exist');
  const inBlock = blockBytes / size;
  const place = metadata.plain(list + 8 * Math.floor(index / inBlock), 8).readBigUInt64LE();
  return metadata.cursor(Number(place), size * (index % inBlock)).take(size);
}

/** Decompresses blocks of up to `most` bytes. Both methods throw a `Fault` for damaged blocks and larger ones. */
export interface Decompressor {
  whole(block: Buffer, most: number): Promise<Buffer>;
  /** For small blocks. */
  now(block: Buffer, most: number): Buffer;
}

/** Compressors by their number in the format. */
const compressionNames: Readonly<Record<number, string>> = {
  1: 'gzip',
  2: 'lzma',
  3: 'lzo',
  4: 'xz',
  5: 'lz4',
  6: 'zstd',
};

const inflateBlock = promisify<Buffer, ZlibOptions, Buffer>(inflate);
const zstdBlock = promisify<Buffer, ZstdOptions, Buffer>(zstdDecompress);

/** Returns the decompressor of a squashfs. Throws a `Fault` for compression other than gzip and zstd. */
export function decompressorOf(compressor: number): Decompressor {
  const name = compressionNames[compressor];
  if (name === 'gzip') return guarded(inflateBlock, inflateSync);
  if (name === 'zstd') return guarded(zstdBlock, zstdDecompressSync);
  throw new Fault(
    'bad-request',
    `The SIF file is compressed with ${name ?? 'something unknown'}, and only gzip and zstd can be read: build it again without -comp, or with 'apptainer build --mksquashfs-args "-comp gzip"'`,
    { phase: 'build' },
  );
}

type Options = { readonly maxOutputLength: number };

function guarded(
  whole: (block: Buffer, options: Options) => Promise<Buffer>,
  now: (block: Buffer, options: Options) => Buffer,
): Decompressor {
  return {
    whole: (block, most) => whole(block, { maxOutputLength: most }).catch(damaged),
    now(block, most) {
      try {
        return now(block, { maxOutputLength: most });
      } catch (error) {
        return damaged(error);
      }
    },
  };
}

function damaged(error: unknown): never {
  const { code = '' } = error as NodeJS.ErrnoException;
  if (!/^(?:Z_|ZSTD_|ERR_BUFFER_TOO_LARGE)/.test(code)) throw error;
  brokenSif('a block of its squashfs is damaged');
}
