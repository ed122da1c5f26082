const digestBytes = 32;

/** Finds what has the same digest. Its memory is outside the heap, and used when it is written. */
export class DigestTable {
  /** Each has the number of an entry, counted from 1, or 0. At least half of them have 0. */
  readonly #slots: Uint32Array;
  readonly #digests: Buffer;
  readonly #values: Uint32Array;
  readonly #digest = Buffer.alloc(digestBytes);
  #count = 0;

  /** @param most number of different digests, or more */
  constructor(most: number) {
    this.#slots = new Uint32Array(2 ** Math.ceil(Math.log2(2 * most + 1)));
    this.#digests = Buffer.alloc(digestBytes * most);
    this.#values = new Uint32Array(most);
  }

  /**
   * Notes a value for a digest, unless that has one already.
   *
   * @param text SHA-256, one character per byte: a buffer for each would stay until the next garbage collection
   * @returns the value of the digest
   */
  add(text: string, value: number): number {
    const digest = this.#digest;
    digest.write(text, 'latin1');
    const mask = this.#slots.length - 1;
    for (let slot = digest.readUInt32LE() & mask; ; slot = (slot + 1) & mask) {
      const entry = (this.#slots[slot] as number) - 1;
      if (entry < 0) {
        digest.copy(this.#digests, digestBytes * this.#count);
        this.#values[this.#count] = value;
        this.#count += 1;
        this.#slots[slot] = this.#count;
        return value;
      }
      const at = digestBytes * entry;
      if (digest.compare(this.#digests, at, at + digestBytes) === 0) {
        return this.#values[entry] as number;
      }
    }
  }
}
