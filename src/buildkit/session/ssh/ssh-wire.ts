/** The data types of SSH. Source: RFC 4251, section 5. */

/** Reads values one after the other. Each method throws a `RangeError` if the bytes end too early. */
export class WireReader {
  #rest: Buffer;

  constructor(bytes: Buffer) {
    this.#rest = bytes;
  }

  /** The bytes that were not read yet. */
  get rest(): Buffer {
    return this.#rest;
  }

  uint32(): number {
    return this.#take(4).readUInt32BE();
  }

  string(): Buffer {
    return this.#take(this.uint32());
  }

  text(): string {
    return this.string().toString('latin1');
  }

  /** Returns the bytes of a positive number, without leading zeros. */
  number(): Buffer {
    return withoutZeros(this.string());
  }

  #take(length: number): Buffer {
    if (length > this.#rest.length) throw new RangeError('The bytes end within a value');
    const taken = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return taken;
  }
}

export function wireUint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Returns the values one after the other, each with its length. */
export function wireStrings(...values: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(
    values.flatMap(value => {
      const bytes = Buffer.from(value as Uint8Array);
      return [wireUint32(bytes.length), bytes];
    }),
  );
}

/** Returns a positive number in the form for {@link wireStrings}: a first bit of 1 would make it negative. */
export function wireNumber(bytes: Buffer): Buffer {
  const digits = withoutZeros(bytes);
  return (digits[0] ?? 0) & 0x80 ? Buffer.concat([Buffer.alloc(1), digits]) : digits;
}

function withoutZeros(bytes: Buffer): Buffer {
  const first = bytes.findIndex(byte => byte !== 0);
  return first < 0 ? Buffer.alloc(0) : bytes.subarray(first);
}
