import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const memoryBytes = 4 * 1024 * 1024;
const readBytes = 1024 * 1024;

interface Memory {
  readonly written: Buffer;
  readonly read: Buffer;
}

/** Memory of the last package on this thread: each package would leave as much for the garbage collector. */
let spare: Memory | undefined;

/**
 * Bytes that are written once in order and read in any order: few of them in memory, many in a file without a name,
 * which disappears with the process. Blocks the thread while it reads and writes: for worker threads only.
 */
export class ScratchBytes implements Disposable {
  readonly #directory: string;
  readonly #memory: Buffer;
  readonly #read: Buffer;
  #inMemory = 0;
  #written = 0;
  #fd: number | undefined;

  /** @param directory where the file is made */
  constructor(directory: string) {
    this.#directory = directory;
    this.#memory = spare?.written ?? Buffer.allocUnsafeSlow(memoryBytes);
    this.#read = spare?.read ?? Buffer.allocUnsafeSlow(readBytes);
    spare = undefined;
  }

  /** Bytes so far. */
  get size(): number {
    return this.#written + this.#inMemory;
  }

  /** Throws the error of the file system if the disk is full. */
  append(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#inMemory === this.#memory.length) this.#flush();
      const end = at + Math.min(bytes.length - at, this.#memory.length - this.#inMemory);
      bytes.copy(this.#memory, this.#inMemory, at, end);
      this.#inMemory += end - at;
      at = end;
    }
  }

  /**
   * Returns the bytes from a position on, which must be written already. Up to 1 MiB of them are a view that is valid until
   * the next call.
   */
  read(position: number, length: number): Buffer {
    const bytes =
      length <= this.#read.length ? this.#read.subarray(0, length) : Buffer.allocUnsafe(length);
    this.#copy(position, bytes);
    return bytes;
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
    spare = { written: this.#memory, read: this.#read };
  }

  #copy(position: number, bytes: Buffer): void {
    const { length } = bytes;
    const fromFile = Math.min(length, Math.max(0, this.#written - position));
    for (let at = 0; at < fromFile; ) {
      const count = readSync(this.#fd ?? -1, bytes, at, fromFile - at, position + at);
      if (count === 0) throw new RangeError('reads past the end of the scratch file');
      at += count;
    }
    if (fromFile < length) {
      const start = position + fromFile - this.#written;
      if (start + length - fromFile > this.#inMemory) throw new RangeError('reads past the end');
      this.#memory.copy(bytes, fromFile, start, start + length - fromFile);
    }
  }

  #flush(): void {
    this.#fd ??= openUnnamed(this.#directory);
    for (let at = 0; at < this.#inMemory; ) {
      at += writeSync(this.#fd, this.#memory, at, this.#inMemory - at, this.#written + at);
    }
    this.#written += this.#inMemory;
    this.#inMemory = 0;
  }
}

/** Opens a new file without a name, to read and write. It disappears when it is closed, and with the process. */
export function openUnnamed(directory: string): number {
  const path = join(directory, `scratch-${randomUUID()}`);
  const fd = openSync(path, 'wx+', 0o600);
  unlinkSync(path);
  return fd;
}
