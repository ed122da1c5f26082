import { Worker } from 'node:worker_threads';
import type { FileAnswer, SolvedRecord, SolveOrder, ThreadMessage } from './solve-messages.ts';

/** A file for the solver. A status other than 200 has no bytes. */
export type ReadFile = (url: string) => Promise<Pick<FileAnswer, 'status' | 'bytes'>>;

/** The solver told why there is no solution, or why it cannot go on. */
export class Unsolved extends Error {}

interface Job {
  readonly readFile: ReadFile;
  resolve(packages: readonly SolvedRecord[]): void;
  reject(reason: Error): void;
}

/** The thread of the solver: one solve at a time. */
export class SolveThread {
  readonly #worker: Worker;
  #job: Job | undefined;
  #lost: Error | undefined;

  constructor() {
    this.#worker = new Worker(new URL('./solve-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 },
    });
    let cause: Error | undefined;
    this.#worker.on('message', (message: ThreadMessage) => this.#told(message));
    this.#worker.on('error', error => {
      cause = error;
    });
    this.#worker.on('exit', () => {
      this.#lost = new Error('the thread of the solver ended', { cause });
      this.#end()?.reject(this.#lost);
    });
    this.#worker.unref();
  }

  /** True after the thread has ended. */
  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** Returns the solution. Rejects with {@link Unsolved}, with the error of a file, or when the thread ends. */
  async solve(order: SolveOrder, readFile: ReadFile): Promise<readonly SolvedRecord[]> {
    if (this.#lost) throw this.#lost;
    const { promise, resolve, reject } = Promise.withResolvers<readonly SolvedRecord[]>();
    this.#job = { readFile, resolve, reject };
    this.#worker.ref();
    this.#worker.postMessage(order);
    return promise;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }

  #told(message: ThreadMessage): void {
    if ('file' in message) this.#read(message.file, message.url);
    else if ('solved' in message) this.#end()?.resolve(message.packages);
    else this.#end()?.reject(new Unsolved(message.reason));
  }

  #read(file: number, url: string): void {
    const job = this.#job;
    job?.readFile(url).then(
      answer => this.#worker.postMessage({ file, ...answer } satisfies FileAnswer),
      // The solver would only tell that a request failed: the reason is known here.
      (error: Error) => {
        if (this.#job === job) this.#end()?.reject(error);
      },
    );
  }

  #end(): Job | undefined {
    const job = this.#job;
    this.#job = undefined;
    this.#worker.unref();
    return job;
  }
}
