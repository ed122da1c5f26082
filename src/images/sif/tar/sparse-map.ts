import { paddedSize } from './tar-entry.ts';
import { TarError } from './tar-error.ts';

/** The limit of Go's reader. */
const maxMapBytes = 1024 * 1024;
/**
 * A real map reaches 1 MiB first: GNU tar finds no part or hole shorter than 512 bytes, so the offsets soon have seven
 * digits and more, and 80,000 parts fill the map. Only a map of empty or tiny parts has more.
 */
const maxParts = 100_000;
const maxDigits = 16;
const nothing = Buffer.alloc(0);

/**
 * Reads the map that an archive stores before the data of a sparse file: the number of parts, then the offset
 * and the length of each, a line each. Reads each byte once, however small the pieces are.
 */
export class SparseMapReader {
  readonly #lines = new SparseNumbers('\n');
  #padding = 0;

  /** Offset and length of each part; undefined while the map or its padding is incomplete. */
  get map(): readonly number[] | undefined {
    const isPadded = this.#padding === this.#lines.missingPadding;
    return this.#isWhole && isPadded ? this.#lines.numbers.slice(1) : undefined;
  }

  get #isWhole(): boolean {
    const { numbers } = this.#lines;
    return numbers[0] !== undefined && numbers.length === 1 + 2 * numbers[0];
  }

  /** Returns the bytes after the map and its padding. Throws {@link TarError} for a damaged map. */
  behind(bytes: Buffer): Buffer {
    const lines = this.#lines;
    let at = lines.read(bytes, 0, 1);
    const [count] = lines.numbers;
    if (count === undefined) return nothing;
    if (count > maxParts) throw tooManyParts();
    at = lines.read(bytes, at, 1 + 2 * count);
    if (!this.#isWhole) return nothing;
    const size = Math.min(lines.missingPadding - this.#padding, bytes.length - at);
    this.#padding += size;
    return bytes.subarray(at + size);
  }
}

/** Returns the offsets and lengths in the map of a PAX header. Throws {@link TarError} for a damaged map. */
export function sparseMapOf(text: string): readonly number[] {
  if (text === '') return [];
  const commas = new SparseNumbers(',');
  const bytes = Buffer.from(`${text},`, 'latin1');
  if (commas.read(bytes, 0, 2 * maxParts) < bytes.length) throw tooManyParts();
  return commas.numbers;
}

/** Reads numbers, each with a separator after it. */
class SparseNumbers {
  readonly numbers: number[] = [];
  readonly #separator: number;
  #bytes = 0;
  #number = 0;
  #digits = 0;

  constructor(separator: string) {
    this.#separator = separator.charCodeAt(0);
  }

  /** Bytes that fill the last block of the numbers. */
  get missingPadding(): number {
    return paddedSize(this.#bytes) - this.#bytes;
  }

  /** Reads until there are so many numbers. Returns the position after the last byte read. */
  read(bytes: Buffer, start: number, count: number): number {
    let at = start;
    for (; at < bytes.length && this.numbers.length < count; at += 1) {
      const byte = bytes[at] ?? 0;
      if (byte === this.#separator) {
        if (this.#digits === 0) throw damagedSparse();
        this.numbers.push(this.#number);
        this.#number = 0;
        this.#digits = 0;
      } else {
        this.#digits += 1;
        if (byte < 0x30 || byte > 0x39 || this.#digits > maxDigits) throw damagedSparse();
        this.#number = 10 * this.#number + byte - 0x30;
      }
    }
    this.#bytes += at - start;
    if (this.#bytes > maxMapBytes) throw damagedSparse();
    return at;
  }
}

/** Returns the error for a sparse file whose map or header makes no sense. */
export function damagedSparse(): TarError {
  return new TarError('has a sparse file with a damaged PAX header');
}

function tooManyParts(): TarError {
  return new TarError(
    `has a sparse file of more than ${maxParts} parts: pack it without 'tar --sparse'`,
  );
}
