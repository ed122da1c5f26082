import { boundedCache } from '../../../../foundation/bounded-cache.ts';
import { brokenSif } from '../../format/record.ts';
import type { Decompressor } from './decompress.ts';

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
