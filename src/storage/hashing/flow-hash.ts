import { createHash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { HashOrder, HashResponse } from './hash-worker.ts';

/** A digest computed over bytes that flow by. The caller need not wait between calls of `update`. */
export interface FlowHash {
  /** Resolves when the bytes are read and their memory may be used again; rejects when the hash is lost. */
  update(chunk: Uint8Array): Promise<void>;
  /** Ends the hash; resolves with its value in hex. Rejects when the hash is lost. */
  digest(): Promise<string>;
  /** Ends the hash without a value; waiting calls are rejected. */
  abort(): void;
}

export type FlowAlgorithm = 'sha256' | 'sha512';

interface Waiting {
  resolve(hex: string): void;
  reject(reason: Error): void;
}

/** A hash in progress on a thread. */
interface Job {
  /** Callers that wait for a response. Responses come in the same order. */
  readonly waiting: Waiting[];
  lost: Error | null;
}

/**
 * Threads that hash. A thread starts when it is first needed, and again after it has died. Threads keep the process
 * alive only while a response is due.
 */
export class HashThreads {
  readonly #threads: HashThread[] = [];
  readonly #limit: number;

  /**
   * Starts at most `limit` threads. Default: the number of processors minus one (for the main thread), at most four.
   */
  constructor(limit = Math.max(1, Math.min(4, availableParallelism() - 1))) {
    this.#limit = limit;
  }

  /** Starts a hash on the thread with the fewest hashes. */
  open(algorithm: FlowAlgorithm): FlowHash {
    let best = this.#threads.reduce<HashThread | undefined>(
      (least, thread) => (least === undefined || thread.jobs < least.jobs ? thread : least),
      undefined,
    );
    if (best === undefined || (best.jobs > 0 && this.#threads.length < this.#limit)) {
      const thread = new HashThread(() => this.#threads.splice(this.#threads.indexOf(thread), 1));
      this.#threads.push(thread);
      best = thread;
    }
    return best.open(algorithm);
  }

  /** Ends all threads; hashes in progress are lost. */
  async close(): Promise<void> {
    await Promise.all(this.#threads.map(thread => thread.stop()));
  }
}

class HashThread {
  readonly #worker: Worker;
  readonly #jobs = new Map<number, Job>();
  #lastId = 0;
  /** Number of responses due. */
  #due = 0;

  constructor(onExit: () => void) {
    this.#worker = new Worker(new URL('./hash-worker.ts', import.meta.url), {
      // The thread holds no bytes itself. Without a limit its heap grows to the size of the process's heap.
      resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 },
    });
    let cause: Error | undefined;
    this.#worker.on('message', (response: HashResponse) => this.#onResponse(response));
    this.#worker.on('error', error => {
      cause = error;
    });
    this.#worker.on('exit', () => {
      onExit();
      const lost = new Error('the hash thread ended', { cause });
      for (const job of this.#jobs.values()) loseJob(job, lost);
      this.#jobs.clear();
    });
    this.#worker.unref();
  }

  get jobs(): number {
    return this.#jobs.size;
  }

  open(algorithm: FlowAlgorithm): FlowHash {
    this.#lastId += 1;
    const id = this.#lastId;
    const job: Job = { waiting: [], lost: null };
    this.#jobs.set(id, job);
    this.#post({ id, open: algorithm });
    return {
      update: async chunk => {
        if (chunk.buffer instanceof SharedArrayBuffer) await this.#ask(job, { id, bytes: chunk });
        else await this.#askWithCopy(job, id, new Uint8Array(chunk));
      },
      digest: () => this.#ask(job, { id, close: 'digest' }),
      abort: () => {
        if (!this.#jobs.delete(id)) return;
        this.#post({ id, close: 'abort' });
        this.#settle(-job.waiting.length);
        loseJob(job, new Error('the hash was given up'));
      },
    };
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }

  /**
   * Copies bytes that are not shared memory once and moves the copy. Otherwise the memory under them would be copied.
   */
  #askWithCopy(job: Job, id: number, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
    return this.#ask(job, { id, bytes }, [bytes.buffer]);
  }

  #ask(job: Job, order: HashOrder, moved: readonly ArrayBuffer[] = []): Promise<string> {
    if (job.lost !== null) return Promise.reject(job.lost);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    job.waiting.push({ resolve, reject });
    this.#settle(1);
    this.#post(order, moved);
    return promise;
  }

  #onResponse({ id, hex }: HashResponse): void {
    const job = this.#jobs.get(id);
    if (job === undefined) return;
    const waiting = job.waiting.shift();
    this.#settle(-1);
    if (hex !== undefined) {
      this.#jobs.delete(id);
      job.lost = new Error('the hash has ended');
    }
    waiting?.resolve(hex ?? '');
  }

  #settle(change: number): void {
    const before = this.#due;
    this.#due += change;
    if (before === 0 && this.#due > 0) this.#worker.ref();
    if (before > 0 && this.#due === 0) this.#worker.unref();
  }

  #post(order: HashOrder, moved: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(order, moved);
  }
}

function loseJob(job: Job, reason: Error): void {
  job.lost = reason;
  for (const waiting of job.waiting.splice(0)) waiting.reject(reason);
}

/**
 * A smaller body is hashed on the main thread: the way to the hash thread and back takes longer than hashing (about
 * 0.5 ms a MiB), and the main loop is not held up.
 */
const inlineBytes = 1024 * 1024;

const sharedThreads = new HashThreads();

/**
 * Returns a hash that runs beside the main thread, so that reading and writing continue.
 * `expectedBytes`, when known to be small, keeps it on the main thread.
 */
export function createFlowHash(
  algorithm: FlowAlgorithm,
  expectedBytes?: number,
  threads: HashThreads = sharedThreads,
): FlowHash {
  if (expectedBytes !== undefined && expectedBytes < inlineBytes) return inlineHash(algorithm);
  return threads.open(algorithm);
}

function inlineHash(algorithm: FlowAlgorithm): FlowHash {
  const hash = createHash(algorithm);
  return {
    update: async chunk => {
      hash.update(chunk);
    },
    digest: async () => hash.digest('hex'),
    abort: () => {},
  };
}
