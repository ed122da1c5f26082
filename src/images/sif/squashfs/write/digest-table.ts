import { randomInt } from 'node:crypto';

const digestBytes = 32;
const wordBits = 32;

/** Finds what has the same digest. Its memory is outside the heap, and used when it is written. */
export class DigestTable {
  /** Each has the number of an entry, counted from 1, or 0. At least half of them have 0. */
  readonly #slots: Uint32Array;
  readonly #digests: Buffer;
  readonly #values: Uint32Array;
  readonly #digest = Buffer.alloc(digestBytes);
  // Nobody outside can choose content whose digests fill neighbouring slots. Any odd number will do.
  readonly #factors = [2 * randomInt(2 ** 31) + 1, 2 * randomInt(2 ** 31) + 1] as const;
  readonly #shift: number;
  #count = 0;

  /** @param most number of different digests, or more */
  constructor(most: number) {
    const bits = Math.ceil(Math.log2(2 * most + 2));
    this.#slots = new Uint32Array(2 ** bits);
    this.#shift = wordBits - bits;
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
    for (let slot = this.#slotOf(digest); ; slot = (slot + 1) & mask) {
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

  /** Source: Dietzfelbinger and others, A reliable randomized algorithm for the closest-pair problem (multiply-shift). */
  #slotOf(digest: Buffer): number {
    const [one, other] = this.#factors;
    const sum = Math.imul(digest.readInt32LE(), one) + Math.imul(digest.readInt32LE(4), other);
    return (sum >>> 0) >>> this.#shift;
  }
}
