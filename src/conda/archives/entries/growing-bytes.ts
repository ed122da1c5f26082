const firstBytes = 64 * 1024;
const stepBytes = 1024 * 1024;

/**
 * Bytes that are appended one after another. They grow where they are, so that nothing is left for the garbage collector,
 * and take memory only as far as they are written.
 */
export class GrowingBytes {
  readonly #memory: ArrayBuffer;
  /** All bytes, and some more after them: a view that is valid until the next call of {@link extend}. */
  view: Buffer;
  /** The same in numbers of 2, 4 and 8 bytes, which are as far from the start as they are long, or a multiple. */
  readonly shorts: Uint16Array;
  readonly words: Uint32Array;
  readonly doubles: Float64Array;
  #size = 0;

  /** @param maxBytes of address space, a multiple of 8; a `RangeError` is thrown for more */
  constructor(maxBytes: number) {
    const byteLength = Math.min(firstBytes, maxBytes);
    const growth = maxBytes > byteLength ? { maxByteLength: maxBytes } : undefined;
    this.#memory = new ArrayBuffer(byteLength, growth);
    this.view = Buffer.from(this.#memory, 0, byteLength);
    // These follow the memory when it grows.
    this.shorts = new Uint16Array(this.#memory);
    this.words = new Uint32Array(this.#memory);
    this.doubles = new Float64Array(this.#memory);
  }

  /** Bytes so far. */
  get size(): number {
    return this.#size;
  }

  /** Bytes of memory that it keeps. */
  get reserved(): number {
    return this.view.length;
  }

  /** Appends bytes of any content; returns where they start. */
  extend(bytes: number): number {
    const start = this.#size;
    const size = start + bytes;
    if (size > this.view.length) {
      const wanted = Math.ceil(size / stepBytes) * stepBytes;
      const length = Math.min(wanted, this.#memory.maxByteLength);
      this.#memory.resize(Math.max(length, size));
      this.view = Buffer.from(this.#memory, 0, this.#memory.byteLength);
    }
    this.#size = size;
    return start;
  }

  /** Forgets all bytes, and keeps the memory. */
  clear(): void {
    this.#size = 0;
  }
}
