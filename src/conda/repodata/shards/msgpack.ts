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

/** Reads one value of MessagePack. Throws a `RangeError` for bytes that are not MessagePack, or that end too early. */
export function unpack(bytes: Uint8Array): Packed {
  const reader = new Reader(bytes);
  const value = reader.value(0);
  if (!reader.isAtEnd) throw new RangeError('bytes follow the value');
  return value;
}

/**
 * Returns a value inside of maps, by the names on the way to it; undefined when there is none. Everything else is skipped.
 * Throws as {@link unpack} does.
 */
export function findEntry(bytes: Uint8Array, path: readonly string[]): Packed | undefined {
  return new Reader(bytes).find(path);
}

/** Source: MessagePack specification, Formats. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  find([name, ...rest]: readonly string[]): Packed | undefined {
    if (name === undefined) return this.value(0);
    const size = this.#mapSize();
    for (let entry = 0; entry < (size ?? 0); entry += 1) {
      if (this.value(0) === name) return this.find(rest);
      this.#skip();
    }
    return undefined;
  }

  value(depth: number): Packed {
    if (depth > maxDepth) throw new RangeError('a value is nested too deeply');
    const head = this.#unsigned(1);
    if (head < 0x80) return head;
    if (head < 0x90) return this.#map(head & 15, depth);
    if (head < 0xa0) return this.#list(head & 15, depth);
    if (head < 0xc0) return this.#text(head & 31);
    if (head >= 0xe0) return head - 0x100;
    switch (head) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return this.#take(this.#unsigned(1 << (head - 0xc4)));
      case 0xca:
        return this.#take(4).readFloatBE(0);
      case 0xcb:
        return this.#take(8).readDoubleBE(0);
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#unsigned(1 << (head - 0xcc));
      case 0xcf:
        return Number(this.#take(8).readBigUInt64BE(0));
      case 0xd0:
      case 0xd1:
      case 0xd2: {
        const size = 1 << (head - 0xd0);
        return this.#take(size).readIntBE(0, size);
      }
      case 0xd3:
        return Number(this.#take(8).readBigInt64BE(0));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#text(this.#unsigned(1 << (head - 0xd9)));
      case 0xdc:
      case 0xdd:
        return this.#list(this.#unsigned(2 << (head - 0xdc)), depth);
      case 0xde:
      case 0xdf:
        return this.#map(this.#unsigned(2 << (head - 0xde)), depth);
      default:
        throw new RangeError(`the format 0x${head.toString(16)} is not expected`);
    }
  }

  /** Returns the number of entries of a map; undefined for another value. */
  #mapSize(): number | undefined {
    const head = this.#unsigned(1);
    if (head >= 0x80 && head < 0x90) return head & 15;
    return head === 0xde || head === 0xdf ? this.#unsigned(2 << (head - 0xde)) : undefined;
  }

  /** Passes over a value with all that is in it. */
  #skip(): void {
    for (let open = 1; open > 0; open -= 1) {
      const head = this.#unsigned(1);
      if (head < 0x80 || head >= 0xe0) continue;
      if (head < 0x90) open += 2 * (head & 15);
      else if (head < 0xa0) open += head & 15;
      else if (head < 0xc0) this.#take(head & 31);
      else if (head >= 0xc4 && head <= 0xc6) this.#take(this.#unsigned(1 << (head - 0xc4)));
      else if (head === 0xca || head === 0xcb) this.#take(4 << (head - 0xca));
      else if (head >= 0xcc && head <= 0xcf) this.#take(1 << (head - 0xcc));
      else if (head >= 0xd0 && head <= 0xd3) this.#take(1 << (head - 0xd0));
      else if (head >= 0xd9 && head <= 0xdb) this.#take(this.#unsigned(1 << (head - 0xd9)));
      else if (head === 0xdc || head === 0xdd) open += this.#unsigned(2 << (head - 0xdc));
      else if (head === 0xde || head === 0xdf) open += 2 * this.#unsigned(2 << (head - 0xde));
    }
  }

  #map(size: number, depth: number): Packed {
    this.#expect(size * 2);
    // Names come from outside: `__proto__` is a member like others.
    const map: Record<string, Packed> = Object.create(null);
    for (let entry = 0; entry < size; entry += 1) {
      const name = this.value(depth + 1);
      if (typeof name !== 'string') throw new RangeError('a name in a map is not text');
      map[name] = this.value(depth + 1);
    }
    return map;
  }

  #list(size: number, depth: number): Packed {
    this.#expect(size);
    const list: Packed[] = [];
    for (let item = 0; item < size; item += 1) list.push(this.value(depth + 1));
    return list;
  }

  #text(size: number): string {
    return this.#take(size).toString('utf8');
  }

  #unsigned(size: number): number {
    return this.#take(size).readUIntBE(0, size);
  }

  #take(size: number): Buffer {
    this.#expect(size);
    const taken = this.#bytes.subarray(this.#at, this.#at + size);
    this.#at += size;
    return taken;
  }

  /** Each value has at least one byte, so a size that is larger than the rest is wrong. */
  #expect(size: number): void {
    if (this.#at + size > this.#bytes.length) throw new RangeError('the bytes end too early');
  }
}
