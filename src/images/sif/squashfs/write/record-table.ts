import type { CompressBlock } from './block-compressor.ts';
import { MetadataWriter } from './metadata-writer.ts';
import type { Appender } from './squashfs-output.ts';

/** A table of records of one size, which divides the size of a block. It ends with the positions of its blocks. */
export class RecordTable {
  readonly #blocks: MetadataWriter;
  readonly #starts: number[] = [];

  constructor(compress: CompressBlock) {
    this.#blocks = new MetadataWriter(compress);
  }

  add(record: Buffer): void {
    if (this.#blocks.offset === 0) this.#starts.push(this.#blocks.block);
    this.#blocks.add(record);
  }

  /** Writes the complete table, with `head` before the positions. Returns where head and positions are. */
  async writeTo(file: Appender, head: Buffer = Buffer.alloc(0)): Promise<bigint> {
    const start = file.position;
    this.#blocks.end();
    await file.add(this.#blocks.takeBlocks());
    const at = file.position;
    const positions = Buffer.alloc(8 * this.#starts.length);
    for (const [index, block] of this.#starts.entries()) {
      positions.writeBigUInt64LE(BigInt(start + block), 8 * index);
    }
    await file.add([head, positions]);
    return BigInt(at);
  }
}
