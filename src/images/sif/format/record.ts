import { Fault } from '../../../foundation/fault.ts';

/** Writes the fields of a record one after another. */
export class RecordWriter {
  readonly #record: Buffer;
  #position = 0;

  constructor(record: Buffer) {
    this.#record = record;
  }

  /** Writes ASCII text. The rest of the field stays unchanged. */
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

/** Reads the fields of a record one after another. The caller ensures that the record is long enough. */
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

  /** Returns the text before the first NUL. */
  text(size: number): string {
    return this.bytes(size).toString('utf8').replace(/\0.*$/s, '');
  }

  /** Unsigned, of 32 bits. */
  word(): number {
    return this.bytes(4).readUInt32LE();
  }

  /** Signed, 64 bits. Throws the {@link Fault} of {@link brokenSif} for a value below 0 or above 2^53 - 1. */
  number(what: string): number {
    const value = this.bytes(8).readBigInt64LE();
    if (value < 0n || value > BigInt(Number.MAX_SAFE_INTEGER))
      brokenSif(`it specifies ${value} as ${what}`);
    return Number(value);
  }
}

/** Throws the {@link Fault} for a SIF file that violates the format. */
export function brokenSif(how: string): never {
  throw new Fault(
    'upstream',
    `The SIF file is broken (${how}): make it again, or copy or push it again`,
    {
      phase: 'upstream',
    },
  );
}
