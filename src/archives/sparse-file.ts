import { paddedSize, TarError } from './tar-entry.ts';
import { maxSparseMapBytes, maxSparseParts } from './tar-limits.ts';

/** The extended header of a sparse file. */
export interface SparseFile {
  readonly name: string | undefined;
  /** Bytes of the file, including its holes. */
  readonly size: number;
  /**
   * Offset and length of each part with data, not parsed: most readers want no content. Undefined if the archive
   * stores this map before the data.
   */
  readonly map: string | undefined;
}

const zeros = Buffer.alloc(1024 * 1024);
/** Shorter pieces are emitted together: a map may have tens of thousands of parts of one byte. */
const shortBytes = 512;
const togetherBytes = 16 * 1024;

/**
 * Returns the sparse file that the records of a PAX header describe, or undefined for any other file.
 * Throws {@link TarError} for damaged records.
 * Source: GNU tar manual, Storing Sparse Files, PAX Format, versions 0.0, 0.1 and 1.0.
 */
export function sparseFile(pax: ReadonlyMap<string, string> | undefined): SparseFile | undefined {
  if (!pax || !isSparse(pax)) return undefined;
  const major = pax.get('GNU.sparse.major') ?? '0';
  const minor = pax.get('GNU.sparse.minor') ?? '1';
  const map = pax.get('GNU.sparse.map');
  const size = pax.get('GNU.sparse.realsize') ?? pax.get('GNU.sparse.size') ?? '';
  const isKnown = (major === '1' && minor === '0') || (major === '0' && map !== undefined);
  if (!isKnown || !/^\d{1,16}$/.test(size)) throw damagedSparse();
  const name = pax.get('GNU.sparse.name');
  return { name, size: Number(size), map: major === '1' ? undefined : map };
}

function isSparse(pax: ReadonlyMap<string, string>): boolean {
  for (const key of pax.keys()) if (key.startsWith('GNU.sparse.')) return true;
  return false;
}

/** Fills the holes of a sparse file while its content is read. */
export class SparseContent {
  readonly #size: number;
  readonly #emit: (bytes: Buffer) => void;
  readonly #head = new SparseMapReader();
  #map: readonly number[] | undefined;
  /** Stored bytes still to come. */
  #rest: number;
  #part = 0;
  /** Bytes emitted so far: of the current part, and of the file. */
  #inPart = 0;
  #position = 0;
  /** Short pieces that are not emitted yet, and free space after them. */
  #together = Buffer.alloc(0);
  #inTogether = 0;

  /** Throws {@link TarError} for a damaged map. @param stored bytes in the archive, without padding */
  constructor({ size, map }: SparseFile, stored: number, emit: (bytes: Buffer) => void) {
    this.#size = size;
    this.#emit = emit;
    this.#rest = stored;
    if (map !== undefined) this.#takeMap(sparseMapOf(map), stored);
    if (stored === 0) this.#end();
    this.#flush();
  }

  /** Takes the next bytes of the archive, including padding. Throws {@link TarError} for a damaged map. */
  write(bytes: Buffer): void {
    if (this.#rest === 0) return;
    const own = bytes.subarray(0, this.#rest);
    this.#rest -= own.length;
    this.#data(this.#map ? own : this.#behindMap(own));
    if (this.#rest === 0) this.#end();
    this.#flush();
  }

  /** Returns the data after the map, or no bytes while the map is incomplete. */
  #behindMap(bytes: Buffer): Buffer {
    const data = this.#head.behind(bytes);
    const { map } = this.#head;
    if (map) this.#takeMap(map, this.#rest + data.length);
    return data;
  }

  #takeMap(map: readonly number[], stored: number): void {
    let end = 0;
    let data = 0;
    for (let at = 0; at < map.length; at += 2) {
      const offset = map[at] ?? 0;
      const length = map[at + 1] ?? Number.NaN;
      if (!(offset >= end && offset + length <= this.#size)) throw damagedSparse();
      end = offset + length;
      data += length;
    }
    if (data !== stored) throw damagedSparse();
    this.#map = map;
  }

  #data(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const offset = this.#map?.[this.#part] ?? 0;
      const length = this.#map?.[this.#part + 1] ?? 0;
      this.#holeTo(offset + this.#inPart);
      const size = Math.min(length - this.#inPart, bytes.length - at);
      this.#put(bytes, at, at + size);
      at += size;
      this.#inPart += size;
      if (this.#inPart < length) continue;
      this.#part += 2;
      this.#inPart = 0;
    }
  }

  #end(): void {
    if (!this.#map) throw damagedSparse();
    this.#holeTo(this.#size);
    this.#holeTo(paddedSize(this.#size));
  }

  #holeTo(end: number): void {
    while (this.#position < end) {
      this.#put(zeros, 0, Math.min(end - this.#position, zeros.length));
    }
  }

  #put(bytes: Buffer, start: number, end: number): void {
    const size = end - start;
    this.#position += size;
    if (size >= shortBytes) {
      this.#flush();
      this.#emit(bytes.subarray(start, end));
      return;
    }
    if (this.#inTogether + size > this.#together.length) {
      this.#flush();
      this.#together = Buffer.allocUnsafe(togetherBytes);
    }
    this.#inTogether += bytes.copy(this.#together, this.#inTogether, start, end);
  }

  #flush(): void {
    if (this.#inTogether === 0) return;
    this.#emit(this.#together.subarray(0, this.#inTogether));
    // The receiver may keep the emitted bytes.
    this.#together = this.#together.subarray(this.#inTogether);
    this.#inTogether = 0;
  }
}

const maxDigits = 16;
const nothing = Buffer.alloc(0);

/**
 * Reads the map that an archive stores before the data of a sparse file: the number of parts, then the offset
 * and the length of each, a line each. Reads each byte once, however small the pieces are.
 */
class SparseMapReader {
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
    if (count > maxSparseParts) throw tooManyParts();
    at = lines.read(bytes, at, 1 + 2 * count);
    if (!this.#isWhole) return nothing;
    const size = Math.min(lines.missingPadding - this.#padding, bytes.length - at);
    this.#padding += size;
    return bytes.subarray(at + size);
  }
}

/** Returns the offsets and lengths in the map of a PAX header. Throws {@link TarError} for a damaged map. */
function sparseMapOf(text: string): readonly number[] {
  if (text === '') return [];
  const commas = new SparseNumbers(',');
  const bytes = Buffer.from(`${text},`, 'latin1');
  if (commas.read(bytes, 0, 2 * maxSparseParts) < bytes.length) throw tooManyParts();
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
    if (this.#bytes > maxSparseMapBytes) throw damagedSparse();
    return at;
  }
}

/** Returns the error for a sparse file whose map or header makes no sense. */
function damagedSparse(): TarError {
  return new TarError('has a sparse file with a damaged PAX header');
}

function tooManyParts(): TarError {
  return new TarError(
    `has a sparse file of more than ${maxSparseParts} parts: pack it without 'tar --sparse'`,
  );
}
