import { boundedCache } from '../../../../foundation/bounded-cache.ts';
import { brokenSif } from '../../format/record.ts';
import type { Decompressor } from './decompress.ts';

/** Bytes of a whole block, decompressed. */
const blockBytes = 8192;
const keptBlocks = 512;

interface Block {
  readonly bytes: Buffer;
  /** Where the next one begins. */
  readonly end: number;
}

/** The part of a squashfs that describes its files: blocks of 8 KiB, each compressed, one after another. */
export class Metadata {
  readonly #bytes: Buffer;
  readonly #start: number;
  readonly #decompressor: Decompressor;
  readonly #blocks = boundedCache<number, Block>(keptBlocks);

  /** @param start where the bytes begin in the squashfs */
  constructor(bytes: Buffer, start: number, decompressor: Decompressor) {
    this.#bytes = bytes;
    this.#start = start;
    this.#decompressor = decompressor;
  }

  /** Reads from a place within the block that begins at a byte of the squashfs. */
  cursor(block: number, offset: number): MetadataCursor {
    return new MetadataCursor(at => this.#blockAt(at), block, offset);
  }

  /** Bytes that are not compressed. */
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

/** A place in the metadata of a squashfs that moves on as it is read. */
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

  /** The next bytes: a view that must not be changed. */
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

/** A table of records of one size, in blocks that a list of places leads to. */
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
