import { paddedSize } from './tar-entry.ts';
import { TarError } from './tar-error.ts';

/** The extended header of a sparse file. */
export interface SparseFile {
  readonly name: string | undefined;
  /** Bytes of the file, including its holes. */
  readonly size: number;
  /** Offset and length of each part with data; undefined if the archive stores this map before the data. */
  readonly map: readonly number[] | undefined;
}

const zeros = Buffer.alloc(1024 * 1024);
/** The limit of Go's reader. */
const maxMapBytes = 1024 * 1024;

/**
 * Returns the sparse file that the records of a PAX header describe, or undefined for any other file.
 * Throws {@link TarError} for damaged records.
 * Source: GNU tar manual, Storing Sparse Files, PAX Format, versions 0.0, 0.1 and 1.0.
 */
export function sparseFile(pax: ReadonlyMap<string, string> | undefined): SparseFile | undefined {
  if (![...(pax?.keys() ?? [])].some(key => key.startsWith('GNU.sparse.'))) return undefined;
  const major = pax?.get('GNU.sparse.major') ?? '0';
  const minor = pax?.get('GNU.sparse.minor') ?? '1';
  const map = pax?.get('GNU.sparse.map');
  const size = pax?.get('GNU.sparse.realsize') ?? pax?.get('GNU.sparse.size') ?? '';
  const isKnown = (major === '1' && minor === '0') || (major === '0' && map !== undefined);
  if (!isKnown || !/^\d{1,16}$/.test(size)) throw damaged();
  const name = pax?.get('GNU.sparse.name');
  return { name, size: Number(size), map: major === '1' ? undefined : numbersOf(map ?? '', ',') };
}

/** Fills the holes of a sparse file while its content is read. */
export class SparseContent {
  readonly #size: number;
  readonly #emit: (bytes: Buffer) => void;
  #map: readonly number[] | undefined;
  #head: Buffer = Buffer.alloc(0);
  /** Stored bytes still to come. */
  #rest: number;
  #part = 0;
  /** Bytes emitted so far: of the current part, and of the file. */
  #inPart = 0;
  #position = 0;

  /** @param stored bytes in the archive, without padding */
  constructor({ size, map }: SparseFile, stored: number, emit: (bytes: Buffer) => void) {
    this.#size = size;
    this.#emit = emit;
    this.#rest = stored;
    if (map) this.#takeMap(map);
    if (stored === 0) this.#end();
  }

  /** Takes the next bytes of the archive, including padding. Throws {@link TarError} for a damaged map. */
  write(bytes: Buffer): void {
    if (this.#rest === 0) return;
    const own = bytes.subarray(0, this.#rest);
    this.#rest -= own.length;
    this.#data(this.#map ? own : this.#behindMap(own));
    if (this.#rest === 0) this.#end();
  }

  /** Returns the data after the map, or no bytes while the map is incomplete. */
  #behindMap(bytes: Buffer): Buffer {
    this.#head = Buffer.concat([this.#head, bytes]);
    const end = this.#head.indexOf(0x0a);
    const count = end < 0 ? -1 : Number(this.#head.toString('latin1', 0, end));
    if (this.#head.length > maxMapBytes || Number.isNaN(count)) throw damaged();
    let at = end;
    for (let number = 0; number < 2 * count && at >= 0; number += 1) {
      at = this.#head.indexOf(0x0a, at + 1);
    }
    const mapBytes = paddedSize(at + 1);
    if (count < 0 || at < 0 || this.#head.length < mapBytes) return Buffer.alloc(0);
    this.#takeMap(numbersOf(this.#head.toString('latin1', end + 1, at), '\n'), mapBytes);
    return this.#head.subarray(mapBytes);
  }

  #takeMap(map: readonly number[], mapBytes = 0): void {
    let end = 0;
    let data = 0;
    for (let at = 0; at < map.length; at += 2) {
      const [offset = 0, length = Number.NaN] = map.slice(at, at + 2);
      if (!(offset >= end && offset + length <= this.#size)) throw damaged();
      end = offset + length;
      data += length;
    }
    const stored = this.#rest + this.#head.length - mapBytes;
    if (data !== stored) throw damaged();
    this.#map = map;
  }

  #data(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const [offset = 0, length = 0] = this.#map?.slice(this.#part, this.#part + 2) ?? [];
      this.#holeTo(offset + this.#inPart);
      const size = Math.min(length - this.#inPart, bytes.length - at);
      if (size > 0) this.#emit(bytes.subarray(at, at + size));
      at += size;
      this.#position += size;
      this.#inPart += size;
      if (this.#inPart < length) continue;
      this.#part += 2;
      this.#inPart = 0;
    }
  }

  #end(): void {
    if (!this.#map) throw damaged();
    this.#holeTo(this.#size);
    this.#holeTo(paddedSize(this.#size));
  }

  #holeTo(end: number): void {
    while (this.#position < end) {
      const size = Math.min(end - this.#position, zeros.length);
      this.#emit(zeros.subarray(0, size));
      this.#position += size;
    }
  }
}

function numbersOf(text: string, separator: string): readonly number[] {
  if (text === '') return [];
  return text.split(separator).map(number => {
    if (!/^\d{1,16}$/.test(number)) throw damaged();
    return Number(number);
  });
}

function damaged(): TarError {
  return new TarError('has a sparse file with a damaged PAX header');
}
