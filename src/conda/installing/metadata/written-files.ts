import { GrowingBytes } from '../../archives/entries/growing-bytes.ts';

/** A file as it was written. */
export interface WrittenFile {
  /** In hex. */
  readonly sha256: string;
  readonly size: number;
}

const digestBytes = 32;
const rowBytes = digestBytes + 8;

/** Files as they were written, by the number of their path: outside of the heap, 44 bytes each. */
export class WrittenFiles {
  readonly #rows: GrowingBytes;
  /** For each path its row, plus 1. */
  readonly #places: Uint32Array;

  /** @param paths numbers are below it */
  constructor(paths: number) {
    this.#rows = new GrowingBytes(paths * rowBytes);
    this.#places = new Uint32Array(paths);
  }

  /** Notes a file, once. */
  set(path: number, { sha256, size }: WrittenFile): void {
    const base = this.#rows.extend(rowBytes);
    this.#rows.view.write(sha256, base, 'hex');
    this.#rows.doubles[(base + digestBytes) >> 3] = size;
    this.#places[path] = base / rowBytes + 1;
  }

  get(path: number): WrittenFile | undefined {
    const place = this.#places[path] ?? 0;
    if (place === 0) return undefined;
    const base = (place - 1) * rowBytes;
    return {
      sha256: this.#rows.view.toString('hex', base, base + digestBytes),
      size: this.#rows.doubles[(base + digestBytes) >> 3] as number,
    };
  }
}
