import { Semaphore } from '../../foundation/semaphore.ts';

/**
 * The memory that bodies are read into. Buffers are shared memory, so that the hash thread reads
 * them without a copy. They are reused, because each new one costs page faults and V8 frees
 * memory outside its heap late.
 */

/** Bytes of a large buffer: one read fills it in a few system calls (measured: 1.5 times the throughput of 128 KiB). */
const largeBytes = 512 * 1024;
/** Bytes of a small buffer, for a transfer that is slow or new, or that comes when no large buffer is left. */
const smallBytes = 32 * 1024;

const trimMs = 5000;
// A thousand reads would complete in one turn of the event loop, and a small manifest would wait for all of them.
const readsAtOnce = 8;

/** A buffer and the number of its users. */
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

export interface SlabPoolOptions {
  /** Maximum bytes in large buffers, used and idle together. */
  largeBudget?: number;
  /** Bytes of small buffers that are kept even when they are idle. */
  smallIdle?: number;
}

/**
 * Buffers for many transfers. Memory is at most `largeBudget` (default 12 MiB), plus the small buffers in use (a
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
