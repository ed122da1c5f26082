import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setEnvironmentData, type Transferable, Worker } from 'node:worker_threads';
import { unlessAborted } from './work.ts';

/** The name under which a thread finds its gate. */
export const gateName = 'sluice.zlib';

/** What the number of a gate means: nobody is in it, the thread makes a zlib stream, or it may make no more. */
export const gate = { open: 0, taken: 1, closed: 2 } as const;

// A thread is in its gate while it unpacks a page or a record, not longer.
const longestMs = 5000;
const lookMs = 1;

/** How a thread is started. */
export interface ThreadOptions {
  /** Memory for what it keeps (MiB). */
  readonly heapMb?: number;
  /** Memory for what is garbage soon (MiB). */
  readonly youngHeapMb?: number;
  readonly workerData?: unknown;
  /** The message of the error when it has ended; the error of the thread is the cause. Default: the error of the thread is thrown. */
  readonly ended?: string;
}

/**
 * A thread, and the messages that it sends: one caller at a time waits for them. Its file imports `foundation/gated-zlib.ts` if
 * anything in it uses zlib. The thread keeps the process alive only while a caller waits.
 */
export class Thread<M> implements AsyncDisposable {
  readonly #worker: Worker;
  readonly #gate = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly #messages: M[] = [];
  #wake = () => {};
  #lost: { readonly reason: unknown } | undefined;

  constructor(file: URL, { heapMb, youngHeapMb, workerData, ended }: ThreadOptions = {}) {
    setEnvironmentData(gateName, this.#gate);
    this.#worker = new Worker(file, {
      workerData,
      resourceLimits: {
        ...(heapMb === undefined ? {} : { maxOldGenerationSizeMb: heapMb }),
        ...(youngHeapMb === undefined ? {} : { maxYoungGenerationSizeMb: youngHeapMb }),
      },
    });
    let cause: unknown;
    this.#worker
      .on('message', (message: M) => {
        this.#messages.push(message);
        this.#wake();
      })
      .on('error', error => {
        cause = error;
      })
      .on('exit', () => {
        const message = ended ?? `the thread of ${basename(file.pathname)} ended`;
        this.#lose(ended === undefined && cause ? cause : new Error(message, { cause }));
      })
      .unref();
  }

  /** True when the thread has ended. */
  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** Sends an order, and forgets messages that an earlier one has left. */
  ask(order: unknown, moved?: readonly Transferable[]): void {
    this.#messages.length = 0;
    this.post(order, moved);
  }

  /** Sends a message. */
  post(message: unknown, moved: readonly Transferable[] = []): void {
    this.#worker.postMessage(message, moved);
  }

  /** Returns the next message of the thread. Throws when the thread has ended, and the reason of the signal. */
  async next(signal?: AbortSignal): Promise<M> {
    this.#worker.ref();
    try {
      for (;;) {
        signal?.throwIfAborted();
        const message = this.#messages.shift();
        if (message !== undefined) return message;
        if (this.#lost) throw this.#lost.reason;
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        await unlessAborted(promise, signal);
      }
    } finally {
      this.#worker.unref();
    }
  }

  /**
   * Ends the thread, whatever it does. A caller that waits for a message gets the reason, if there is one and no message is left.
   * Node ends the whole process if a thread is terminated between the two steps in which it makes a zlib stream
   * (`CHECK(init_done_ && "close before init")` in `src/node_zlib.cc`), so this waits for that.
   */
  async end(reason?: unknown): Promise<void> {
    if (reason !== undefined) this.#lose(reason);
    const until = performance.now() + longestMs;
    while (Atomics.compareExchange(this.#gate, 0, gate.open, gate.closed) === gate.taken) {
      if (performance.now() > until) break;
      await sleep(lookMs);
    }
    await this.#worker.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }

  #lose(reason: unknown): void {
    this.#lost ??= { reason };
    this.#wake();
  }
}

/** Returns true for the error of a thread that needed more memory than it may have. */
export function isOutOfMemory(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, cause }: NodeJS.ErrnoException = error;
  return code === 'ERR_WORKER_OUT_OF_MEMORY' || isOutOfMemory(cause);
}

/** Enough for the event loop: with 10, threads that share a processor with another program get a tenth of it. */
const laterPriority = 5;

/**
 * Lets all other work go first on the processors. For a thread that works for long: the event loop waits for a free processor up to
 * a hundred milliseconds where some such threads are busy. Linux has a priority for each thread; elsewhere this does nothing.
 */
export function lowerPriority(): void {
  try {
    const thread = readlinkSync('/proc/thread-self').split('/').at(-1);
    setPriority(Number(thread), laterPriority);
  } catch {
    // Without it, the work is done as well.
  }
}
