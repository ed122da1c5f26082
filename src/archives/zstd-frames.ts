import { Transform, type TransformCallback } from 'node:stream';

const frameMagic = 0xfd2fb528;
/** The first of 16 values, which differ only in the last hexadecimal digit. */
const skippableMagic = 0x184d2a50;
const dictionaryBytes = [0, 1, 2, 4];
const contentSizeBytes = [0, 2, 4, 8];
const checksumBytes = 4;

/** The kind of the next bytes, and how many are required to know what follows. */
type Step = 'magic' | 'skip-size' | 'descriptor' | 'block';
const stepBytes: Readonly<Record<Step, number>> = {
  magic: 4,
  'skip-size': 4,
  descriptor: 1,
  block: 3,
};

/**
 * Splits zstd data so that no chunk contains bytes of two frames. Node's decompressor stops at the end of
 * a frame within a chunk, and layers in the zstd:chunked format have a frame for each file. Data that is
 * not zstd passes unchanged; the decompressor reports the error.
 * Source: RFC 8878, sections 3.1.1 and 3.1.2.
 */
export class ZstdFrames extends Transform {
  #step: Step = 'magic';
  readonly #head = Buffer.alloc(4);
  #headFill = 0;
  /** Bytes to pass before the next step. */
  #pass = 0;
  /** True when the frame ends after these bytes. */
  #isLast = false;
  #hasChecksum = false;

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    let start = 0;
    let at = 0;
    while (at < chunk.length) {
      at += this.#pass > 0 ? this.#skip(chunk.length - at) : this.#readHead(chunk, at);
      if (this.#pass > 0 || !this.#isLast) continue;
      this.#isLast = false;
      this.#step = 'magic';
      this.push(chunk.subarray(start, at));
      start = at;
    }
    if (start < at) this.push(chunk.subarray(start, at));
    done();
  }

  #skip(available: number): number {
    const size = Math.min(this.#pass, available);
    this.#pass -= size;
    return size;
  }

  #readHead(chunk: Buffer, at: number): number {
    const wanted = stepBytes[this.#step];
    const size = chunk.copy(this.#head, this.#headFill, at, at + wanted - this.#headFill);
    this.#headFill += size;
    if (this.#headFill === wanted) {
      this.#headFill = 0;
      this.#take(this.#head);
    }
    return size;
  }

  #take(head: Buffer): void {
    switch (this.#step) {
      case 'magic': {
        const magic = head.readUInt32LE();
        if (magic === frameMagic) this.#step = 'descriptor';
        else if (magic - (magic % 16) === skippableMagic) this.#step = 'skip-size';
        else this.#pass = Number.POSITIVE_INFINITY;
        return;
      }
      case 'skip-size':
        this.#pass = head.readUInt32LE();
        this.#isLast = true;
        return;
      case 'descriptor':
        this.#takeDescriptor(head.readUInt8());
        return;
      case 'block':
        this.#takeBlock(head.readUIntLE(0, 3));
    }
  }

  #takeDescriptor(descriptor: number): void {
    const isSingleSegment = (descriptor & 0x20) !== 0;
    const sizeFlag = descriptor >> 6;
    const sizeBytes = sizeFlag === 0 && isSingleSegment ? 1 : (contentSizeBytes[sizeFlag] ?? 0);
    const windowBytes = isSingleSegment ? 0 : 1;
    this.#hasChecksum = (descriptor & 4) !== 0;
    this.#pass = windowBytes + (dictionaryBytes[descriptor & 3] ?? 0) + sizeBytes;
    this.#step = 'block';
  }

  #takeBlock(header: number): void {
    const isRepeated = ((header >> 1) & 3) === 1;
    this.#isLast = (header & 1) === 1;
    this.#pass = isRepeated ? 1 : header >> 3;
    if (this.#isLast && this.#hasChecksum) this.#pass += checksumBytes;
  }
}
