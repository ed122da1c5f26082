/** What MessagePack holds here. Whole numbers are as exact as JSON reads them. */
export type Packed =
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | readonly Packed[]
  | { readonly [name: string]: Packed };

const maxDepth = 32;

/** Writes MessagePack into a buffer that grows. Source: MessagePack specification, Formats. */
export class MsgpackWriter {
  #bytes = Buffer.allocUnsafe(64 * 1024);
  #length = 0;

  /** Returns what was written so far, valid until the next call. */
  get written(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): void {
    this.#length = 0;
  }

  /** Begins a map of `size` entries: a key and a value follow for each. */
  map(size: number): void {
    this.#head(size, 0x80, 15, [0, 0xde, 0xdf]);
  }

  /** Writes bytes that are MessagePack already. */
  raw(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** Leaves out members that are undefined, as JSON does. Throws a `RangeError` for values that are nested too deeply. */
  value(value: Packed | undefined, depth = 0): void {
    if (depth > maxDepth) throw new RangeError('a value is nested too deeply');
    if (value === null || value === undefined) this.#byte(0xc0);
    else if (typeof value === 'boolean') this.#byte(value ? 0xc3 : 0xc2);
    else if (typeof value === 'number') this.#number(value);
    else if (typeof value === 'string') this.#text(value);
    else if (value instanceof Uint8Array) this.#binary(value);
    else if (isList(value)) {
      this.#head(value.length, 0x90, 15, [0, 0xdc, 0xdd]);
      for (const item of value) this.value(item, depth + 1);
    } else {
      const names = Object.keys(value);
      this.map(names.length);
      for (const name of names) {
        this.#text(name);
        this.value(value[name], depth + 1);
      }
    }
  }

  #number(value: number): void {
    this.#room(9);
    if (Number.isInteger(value) && value >= 0 && value < 0x80) {
      this.#byte(value);
    } else if (Number.isSafeInteger(value) && value >= 0) {
      this.#byte(0xcf);
      this.#length = this.#bytes.writeBigUInt64BE(BigInt(value), this.#length);
    } else if (Number.isSafeInteger(value)) {
      this.#byte(0xd3);
      this.#length = this.#bytes.writeBigInt64BE(BigInt(value), this.#length);
    } else {
      this.#byte(0xcb);
      this.#length = this.#bytes.writeDoubleBE(value, this.#length);
    }
  }

  #text(value: string): void {
    const size = Buffer.byteLength(value);
    this.#head(size, 0xa0, 31, [0xd9, 0xda, 0xdb]);
    this.#room(size);
    this.#length += this.#bytes.write(value, this.#length);
  }

  #binary(value: Uint8Array): void {
    this.#head(value.length, 0, -1, [0xc4, 0xc5, 0xc6]);
    this.raw(value);
  }

  /** Writes the form with the least bytes: one with the size in its first byte, or with 8, 16 or 32 bits of size. */
  #head(
    size: number,
    short: number,
    shortest: number,
    [in8, in16, in32]: readonly [number, number, number],
  ) {
    this.#room(5);
    if (size <= shortest) {
      this.#byte(short | size);
    } else if (size < 0x100 && in8 !== 0) {
      this.#byte(in8);
      this.#byte(size);
    } else if (size < 0x10000) {
      this.#byte(in16);
      this.#length = this.#bytes.writeUInt16BE(size, this.#length);
    } else {
      this.#byte(in32);
      this.#length = this.#bytes.writeUInt32BE(size, this.#length);
    }
  }

  #byte(value: number): void {
    this.#room(1);
    this.#bytes[this.#length] = value;
    this.#length += 1;
  }

  #room(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + more));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

/** Returns a value as MessagePack. */
export function pack(value: Packed): Buffer {
  const writer = new MsgpackWriter();
  writer.value(value);
  return Buffer.from(writer.written);
}

/** Array.isArray does not narrow read-only arrays. */
function isList(value: unknown): value is readonly Packed[] {
  return Array.isArray(value);
}
