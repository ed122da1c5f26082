import { type FileHandle, open } from 'node:fs/promises';
import { type Slab, SlabPool } from './buffers.ts';
import type { ByteSource, Chunk } from './byte-source.ts';

export interface FileSourceOptions {
  /** Called by the first read; the source closes what it returns. */
  readonly open: () => Promise<FileHandle>;
  /** First and last byte to read, both included. */
  readonly start: number;
  readonly end: number;
  /** Source of the buffers. Default: buffers for this source alone. */
  readonly slabs?: SlabPool | undefined;
  /**
   * For a file that is still being written: waits until there are bytes after the position, and returns the position
   * (excluded) up to which they may be read. Rejects when they will never come.
   */
  readonly available?: ((position: number) => Promise<number>) | undefined;
  /** Called once, when the source is closed. */
  readonly onClose?: (() => void) | undefined;
}

// A reader that gives a buffer back within this time (ms) is fast. It gets large buffers while there are any, two in
// turns: one is filled while the other is written out. Other readers get one small buffer at a time: each of a
// thousand clients holds 32 KiB.
const fastMs = 50;

/**
 * Returns a source of the bytes of a file. It holds at most two buffers of the pool, or one when its reader is slow.
 */
export function fileSource(options: FileSourceOptions): ByteSource {
  return new FileSource(options);
}

/** Returns a source of a whole file of the given size. */
export function wholeFile(path: string, size: number, slabs?: SlabPool): ByteSource {
  const pool = slabs ? { slabs } : {};
  return fileSource({ open: () => open(path, 'r'), start: 0, end: size - 1, ...pool });
}

class FileSource implements ByteSource {
  readonly #options: FileSourceOptions;
  readonly #slabs: SlabPool;
  #position: number;
  #file: Promise<FileHandle> | undefined;
  #lent = 0;
  #isFast = false;
  #isLarge = false;
  #released: (() => void) | undefined;
  #reading: Promise<unknown> = Promise.resolve();
  #failure: Error | undefined;

  constructor(options: FileSourceOptions) {
    this.#options = options;
    this.#slabs = options.slabs ?? new SlabPool();
    this.#position = options.start;
  }

  async read(): Promise<Chunk | null> {
    if (this.#failure) throw this.#failure;
    const { end, available } = this.#options;
    if (this.#position > end) {
      this.destroy();
      return null;
    }
    const limit = available ? Math.min(await available(this.#position), end + 1) : end + 1;
    await this.#turn();
    const reading = this.#slabs.reads.run(() => this.#fill(limit));
    this.#reading = reading.catch(() => {});
    return reading;
  }

  destroy(reason = new Error('the source was closed')): void {
    if (this.#failure) return;
    this.#failure = reason;
    this.#released?.();
    const file = this.#file;
    this.#reading.then(async () => (await file)?.close()).catch(() => {});
    this.#options.onClose?.();
  }

  async #fill(limit: number): Promise<Chunk> {
    if (this.#failure) throw this.#failure;
    this.#file ??= this.#options.open();
    const file = await this.#file;
    const slab = this.#slabs.take(this.#isFast && limit - this.#position > this.#slabs.smallBytes);
    this.#isLarge = slab.large;
    try {
      const length = Math.min(slab.bytes.length, limit - this.#position);
      const { bytesRead } = await file.read(slab.bytes, 0, length, this.#position);
      if (this.#failure) throw this.#failure;
      if (bytesRead === 0) throw new Error('the file is shorter than it should be');
      this.#position += bytesRead;
      return this.#lend(slab, bytesRead);
    } catch (error) {
      this.#slabs.give(slab);
      throw error;
    }
  }

  #lend(slab: Slab, size: number): Chunk {
    const since = performance.now();
    let isLent = true;
    this.#lent += 1;
    const release = () => {
      if (!isLent) return;
      isLent = false;
      this.#lent -= 1;
      this.#isFast = performance.now() - since < fastMs;
      this.#slabs.give(slab);
      this.#released?.();
    };
    return { bytes: slab.bytes.subarray(0, size), release };
  }

  /** Waits until another buffer may be taken. */
  async #turn(): Promise<void> {
    while (this.#lent >= (this.#isFast && this.#isLarge ? 2 : 1)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#released = resolve;
      await promise;
      if (this.#failure) throw this.#failure;
    }
  }
}
