import { closeSync, readSync, writeSync } from 'node:fs';
import { openUnnamed } from '../unnamed-file.ts';

/** The last bytes of a stream, in a file without a name that goes round. Blocks the thread. */
export class WindowFile implements Disposable {
  readonly #directory: string;
  readonly #size: number;
  #fd: number | undefined;

  /**
   * @param directory where the file is made, with the first bytes
   * @param size of the file, in bytes
   */
  constructor(directory: string, size: number) {
    this.#directory = directory;
    this.#size = size;
  }

  /** Throws the error of the file system if the disk is full. */
  write(bytes: Buffer, position: number): void {
    this.#fd ??= openUnnamed(this.#directory);
    for (let at = 0; at < bytes.length; ) {
      const start = (position + at) % this.#size;
      const length = Math.min(bytes.length - at, this.#size - start);
      at += writeSync(this.#fd, bytes, at, length, start);
    }
  }

  /** Fills `bytes` with what is at a position. */
  read(bytes: Buffer, position: number): void {
    for (let at = 0; at < bytes.length; ) {
      const start = (position + at) % this.#size;
      const length = Math.min(bytes.length - at, this.#size - start);
      const read = readSync(this.#fd ?? -1, bytes, at, length, start);
      if (read === 0) throw new RangeError('reads past the end of the window');
      at += read;
    }
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}
