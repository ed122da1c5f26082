/** Writes numbers and texts one after the other into memory that grows. */
export class RecordWriter {
  #bytes = Buffer.allocUnsafe(4096);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Writes a whole number of at most 53 bits in groups of 7 bits, the lowest first. */
  number(value: number): void {
    this.#reserve(8);
    let rest = value;
    while (rest > 0x7f) {
      this.#bytes[this.#length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#length++] = rest;
  }

  /** Writes a text of one character for each byte. */
  text(text: string): void {
    this.number(text.length);
    this.#reserve(text.length);
    this.#length += this.#bytes.write(text, this.#length, 'latin1');
  }

  /** Returns what was written, and starts again. The bytes are valid until the next write. */
  take(): Buffer {
    const written = this.#bytes.subarray(0, this.#length);
    this.#length = 0;
    return written;
  }

  #reserve(size: number): void {
    if (this.#length + size <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + size));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

/** Reads what a {@link RecordWriter} has written. Throws {@link DamagedListing} at the end of the bytes. */
export class RecordReader {
  readonly #bytes: Buffer;
  #at: number;

  constructor(bytes: Buffer, at = 0) {
    this.#bytes = bytes;
    this.#at = at;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  number(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 0x80) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined || factor > Number.MAX_SAFE_INTEGER) throw new DamagedListing();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
  }

  text(): string {
    const length = this.number();
    if (this.#at + length > this.#bytes.length) throw new DamagedListing();
    const text = this.#bytes.toString('latin1', this.#at, this.#at + length);
    this.#at += length;
    return text;
  }
}

/** A kept listing that the disk has damaged. It is removed and made again. */
export class DamagedListing extends Error {
  constructor(options?: ErrorOptions) {
    super('a kept listing is damaged', options);
  }
}
