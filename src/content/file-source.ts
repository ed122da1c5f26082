import { type FileHandle, open } from 'node:fs/promises';
import type { ByteSource, Chunk } from './byte-source.ts';

// Two buffers are filled in turns: one is read into while the other is on loan. New ones for each
// read, as streams have them, halve the speed.
const bufferBytes = 512 * 1024;
const bufferCount = 2;

/** The bytes of a file from `start` to `end`, both included. It is opened by the first read. */
export function fileSource(path: string, start: number, end: number): ByteSource {
  return new FileSource(path, start, end);
}

class FileSource implements ByteSource {
  readonly #path: string;
  readonly #end: number;
  #position: number;
  #file: Promise<FileHandle> | undefined;
  #made = 0;
  readonly #free: Buffer[] = [];
  #freed: (() => void) | undefined;
  #reading: Promise<unknown> = Promise.resolve();
  #failure: Error | undefined;

  constructor(path: string, start: number, end: number) {
    this.#path = path;
    this.#position = start;
    this.#end = end;
  }

  async read(): Promise<Chunk | null> {
    if (this.#failure) throw this.#failure;
    if (this.#position > this.#end) {
      this.destroy();
      return null;
    }
    const buffer = await this.#take();
    const reading = this.#fill(buffer);
    this.#reading = reading.catch(() => {});
    const size = await reading;
    if (this.#failure) throw this.#failure;
    if (size === 0) throw new Error('the file is shorter than it should be');
    this.#position += size;
    let isLent = true;
    const release = () => {
      if (!isLent) return;
      isLent = false;
      this.#free.push(buffer);
      this.#freed?.();
    };
    return { bytes: buffer.subarray(0, size), release };
  }

  destroy(reason = new Error('the source was closed')): void {
    if (this.#failure) return;
    this.#failure = reason;
    this.#freed?.();
    const file = this.#file;
    this.#reading.then(async () => (await file)?.close()).catch(() => {});
  }

  async #fill(buffer: Buffer): Promise<number> {
    this.#file ??= open(this.#path, 'r');
    const file = await this.#file;
    const length = Math.min(buffer.length, this.#end - this.#position + 1);
    return (await file.read(buffer, 0, length, this.#position)).bytesRead;
  }

  /** A buffer that nobody has; waits for one when all are on loan. */
  async #take(): Promise<Buffer> {
    for (;;) {
      if (this.#failure) throw this.#failure;
      const buffer = this.#free.pop();
      if (buffer) return buffer;
      if (this.#made < bufferCount) {
        this.#made += 1;
        return Buffer.allocUnsafeSlow(Math.min(bufferBytes, this.#end - this.#position + 1));
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#freed = resolve;
      await promise;
    }
  }
}
