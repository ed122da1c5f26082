import { Fault } from '../../../foundation/fault.ts';

/** Writes the fields of a record one after another. */
export class RecordWriter {
  readonly #record: Buffer;
  #position = 0;

  constructor(record: Buffer) {
    this.#record = record;
  }

  /** ASCII text; what is left of its size stays as it is. */
  text(text: string, size: number): void {
    this.#record.write(text, this.#position, size, 'latin1');
    this.#position += size;
  }

  bytes(bytes: Uint8Array, size: number): void {
    this.#record.set(bytes.subarray(0, size), this.#position);
    this.#position += size;
  }

  /** Unsigned, of 32 bits. */
  word(value: number): void {
    this.#position = this.#record.writeUInt32LE(value, this.#position);
  }

  /** Signed, of 64 bits each. */
  numbers(...values: readonly number[]): void {
    for (const value of values) {
      this.#position = this.#record.writeBigInt64LE(BigInt(value), this.#position);
    }
  }
}

/** Reads the fields of a record, which is long enough, one after another. */
export class RecordReader {
  readonly #record: Buffer;
  #position = 0;

  constructor(record: Buffer) {
    this.#record = record;
  }

  skip(size: number): void {
    this.#position += size;
  }

  bytes(size: number): Buffer {
    const start = this.#position;
    this.#position += size;
    return this.#record.subarray(start, this.#position);
  }

  /** The text before the first NUL. */
  text(size: number): string {
    return this.bytes(size).toString('utf8').replace(/\0.*$/s, '');
  }

  /** Unsigned, of 32 bits. */
  word(): number {
    return this.bytes(4).readUInt32LE();
  }

  /** Signed, of 64 bits; one that is negative or beyond 2^53 makes the file a broken one. */
  number(what: string): number {
    const value = this.bytes(8).readBigInt64LE();
    if (value < 0n || value > BigInt(Number.MAX_SAFE_INTEGER))
      brokenSif(`it gives ${value} as ${what}`);
    return Number(value);
  }
}

/** Throws the {@link Fault} of a SIF file that breaks its format. */
export function brokenSif(how: string): never {
  throw new Fault('upstream', `The SIF file is broken (${how}): push it again`, {
    phase: 'upstream',
  });
}
