import { pauseTurn } from '../../../../foundation/pause-turn.ts';
import type { CompressBlock } from './block-compressor.ts';

/** Bytes of a full block before compression. */
export const metadataBytes = 8192;
const storedMark = 0x8000;

/** Returns a block of metadata that is stored as it is. */
export function storedMetadata(bytes: Buffer): Buffer {
  const head = Buffer.alloc(2);
  head.writeUInt16LE(bytes.length + storedMark);
  return Buffer.concat([head, bytes]);
}

/** Writes a part of what describes the files of a squashfs: a sequence of compressed blocks of 8 KiB each. */
export class MetadataWriter {
  readonly #compress: CompressBlock;
  readonly #block = Buffer.alloc(metadataBytes);
  readonly #packed = Buffer.alloc(metadataBytes);
  #fill = 0;
  #blocks: Buffer[] = [];
  /** Bytes of all blocks. */
  #size = 0;

  constructor(compress: CompressBlock) {
    this.#compress = compress;
  }

  /** Position of the block of the next byte, from the start of this part. */
  get block(): number {
    return this.#size;
  }

  /** Offset of the next byte in its block. */
  get offset(): number {
    return this.#fill;
  }

  /** Place of the next byte: the block times 65536, plus the offset in it. */
  get place(): number {
    return this.#size * 65_536 + this.#fill;
  }

  add(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const size = bytes.copy(this.#block, this.#fill, at);
      at += size;
      this.#fill += size;
      if (this.#fill === metadataBytes) this.end();
    }
  }

  /** Like {@link add}, but yields to other work between blocks: the list of a large file has hundreds of them. */
  async addInTurns(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; at += metadataBytes) {
      this.add(bytes.subarray(at, at + metadataBytes));
      await pauseTurn();
    }
  }

  /** Ends the current block. Only the last block may be shorter than the others. */
  end(): void {
    if (this.#fill === 0) return;
    const bytes = this.#block.subarray(0, this.#fill);
    const size = this.#compress(bytes, this.#packed);
    const block = Buffer.allocUnsafeSlow(2 + (size || bytes.length));
    block.writeUInt16LE(size || bytes.length + storedMark);
    (size ? this.#packed.subarray(0, size) : bytes).copy(block, 2);
    this.#blocks.push(block);
    this.#size += block.length;
    this.#fill = 0;
  }

  /** Returns the blocks that are complete and were not returned before. */
  takeBlocks(): Buffer[] {
    const blocks = this.#blocks;
    this.#blocks = [];
    return blocks;
  }
}
