import { type FileHandle, open } from 'node:fs/promises';
import { Semaphore } from '../../foundation/semaphore.ts';
import type { ByteSource, Chunk } from './byte-source.ts';

interface FileSourceOptions {
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

/** Bytes of a large buffer: one read fills it in a few system calls (measured: 1.5 times the throughput of 128 KiB). */
const largeBytes = 512 * 1024;
/** Bytes of a small buffer, for a transfer that is slow or new, or that comes when no large buffer is left. */
const smallBytes = 32 * 1024;

const trimMs = 5000;
// A thousand reads would complete in one turn of the event loop, and a small manifest would wait for all of them.
const readsAtOnce = 8;

/** A buffer that bodies are read into, and the number of its users. It is shared memory: the hash thread reads it without a copy. */
export class Slab {
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  users = 1;

  constructor(size: number) {
    this.bytes = new Uint8Array(new SharedArrayBuffer(size));
  }

  get large(): boolean {
    return this.bytes.length === largeBytes;
  }
}

interface SlabPoolOptions {
  /** Maximum bytes in large buffers, used and idle together. */
  largeBudget?: number;
  /** Bytes of small buffers that are kept even when they are idle. */
  smallIdle?: number;
}

/**
 * Buffers for many transfers. They are reused, because each new one costs page faults and V8 frees memory outside its
 * heap late. Memory is at most `largeBudget` (default 12 MiB), plus the small buffers in use (a
 * slow file holds one, a slow upstream transfer three: 32 and 96 KiB), plus `smallIdle` (default 4 MiB). The pool releases
 * further small buffers after they were idle for some seconds. It does not release them at once, because new memory costs
 * page faults and released memory is free only after the next garbage collection.
 */
export class SlabPool {
  /** The queue for reads from files. */
  readonly reads = new Semaphore({ limit: readsAtOnce });
  readonly #large: Slab[] = [];
  readonly #small: Slab[] = [];
  readonly #largeLimit: number;
  readonly #smallLimit: number;
  #largeMade = 0;
  #lent = 0;
  /** The minimum number of idle small buffers since the last trim: these were not needed. */
  #fewestIdle = 0;
  #trimming: NodeJS.Timeout | undefined;

  constructor({ largeBudget = 12 << 20, smallIdle = 4 << 20 }: SlabPoolOptions = {}) {
    this.#largeLimit = Math.floor(largeBudget / largeBytes);
    this.#smallLimit = Math.floor(smallIdle / smallBytes);
  }

  /** Bytes of a small buffer. */
  get smallBytes(): number {
    return smallBytes;
  }

  /** Buffers on loan. */
  get lent(): number {
    return this.#lent;
  }

  /** Returns a buffer with one user: a large one if the caller wants it and the budget allows it. */
  take(large: boolean): Slab {
    this.#lent += 1;
    const slab = (large ? this.#takeLarge() : undefined) ?? this.#small.pop();
    this.#fewestIdle = Math.min(this.#fewestIdle, this.#small.length);
    if (slab === undefined) return new Slab(smallBytes);
    slab.users = 1;
    return slab;
  }

  #takeLarge(): Slab | undefined {
    const idle = this.#large.pop();
    if (idle !== undefined || this.#largeMade >= this.#largeLimit) return idle;
    this.#largeMade += 1;
    return new Slab(largeBytes);
  }

  /** Removes one user; returns true when it was the last one and the buffer is back in the pool. */
  give(slab: Slab): boolean {
    slab.users -= 1;
    if (slab.users > 0) return false;
    this.#lent -= 1;
    if (slab.large) this.#large.push(slab);
    else this.#small.push(slab);
    if (this.#small.length > this.#smallLimit) this.#trimLater();
    return true;
  }

  #trimLater(): void {
    if (this.#trimming) return;
    this.#fewestIdle = this.#small.length;
    this.#trimming = setTimeout(() => {
      this.#trimming = undefined;
      const excess = Math.min(this.#fewestIdle, this.#small.length - this.#smallLimit);
      if (excess > 0) this.#small.splice(0, excess);
      if (this.#small.length > this.#smallLimit) this.#trimLater();
    }, trimMs).unref();
  }
}
