import type { Worker } from 'node:worker_threads';
import { endThread, startThread } from '../../foundation/work.ts';
import type { CondaPackage } from '../conda-package.ts';

/** What the solver's thread is started with. */
export interface ThreadSettings {
  /** Maximum memory of the solver, bytes. */
  readonly memoryBytes: number;
}

/** What the solver's thread gets for one environment. */
export interface SolveOrder {
  readonly solve: number;
  readonly specs: readonly string[];
  /** Base URLs in order of priority. */
  readonly channels: readonly string[];
  readonly platforms: readonly string[];
  readonly subdirs: readonly SubdirOrder[];
  readonly locked: readonly LockedRecord[];
}

/** Repository data of one subdirectory. */
export interface SubdirOrder {
  /** URL of the subdirectory, without a slash at the end. */
  readonly url: string;
  readonly subdir: string;
  /** Names of packages that are not taken from here. */
  readonly hidden: readonly string[];
  /** File of its shards; undefined for a channel that has no such subdirectory. */
  readonly path: string | undefined;
  /** Upstream URL of the shards that are not in the file. */
  readonly shards: string | undefined;
}

/** A package that the solver takes as installed. */
export interface LockedRecord {
  readonly url: string;
  readonly packageName: string;
  readonly version: string;
  readonly build: string;
  readonly buildNumber: bigint;
  readonly filename: string;
  readonly depends: readonly string[];
  readonly subdir: string;
  readonly repoName: string;
  readonly md5?: string | undefined;
  readonly sha256?: string | undefined;
  readonly size?: bigint | undefined;
}

/** A request of the thread for a shard that is not in its files. */
interface ShardRequest {
  readonly shard: number;
  /** Upstream URL of the shards. */
  readonly base: string;
  readonly hex: string;
}

export interface ShardResponse {
  readonly shard: number;
  readonly bytes: Uint8Array;
}

export type UnsolvedCause = 'solver' | 'channel' | 'disk' | 'unreadable' | 'memory' | 'fault';

/** A message from the thread. */
export type ThreadMessage =
  | ShardRequest
  | {
      readonly solved: number;
      readonly packages: readonly CondaPackage[];
      readonly memoryBytes: number;
    }
  | {
      readonly failed: number;
      /** `channel`: repository data is at fault. `disk`: kept data is damaged. `unreadable`: it cannot be read, and the reason
       * is a code such as `EIO`. `memory`: it needs more. `fault`: the solver broke down. */
      readonly cause: UnsolvedCause;
      readonly reason: string;
      readonly memoryBytes: number;
    };

type ReadShard = (base: string, hex: string) => Promise<Uint8Array>;

/** The thread's reason for an environment that was not solved. */
export class Unsolved extends Error {
  readonly reason: UnsolvedCause;

  constructor(reason: Unsolved['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

interface Job {
  readonly readShard: ReadShard;
  resolve(packages: readonly CondaPackage[]): void;
  reject(reason: Error): void;
}

/** The thread of the solver: one solve at a time. */
export class SolveThread {
  readonly #worker: Worker;
  #job: Job | undefined;
  #lost: Error | undefined;
  #memoryBytes = 0;

  constructor(settings: ThreadSettings) {
    this.#worker = startThread(new URL('./solve-worker.ts', import.meta.url), {
      workerData: settings,
      // Shards are outside of its heap; what it reads of them is not.
      resourceLimits: { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 8 },
    });
    let cause: Error | undefined;
    this.#worker.on('message', (message: ThreadMessage) => this.#told(message));
    this.#worker.on('error', error => {
      cause = error;
    });
    this.#worker.on('exit', () => {
      this.#lost ??= new Error('the thread of the solver ended', { cause });
      this.#end()?.reject(this.#lost);
    });
    this.#worker.unref();
  }

  /** True when it cannot solve any more. */
  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** Bytes that the solver has taken; they are free when the thread ends. */
  get memoryBytes(): number {
    return this.#memoryBytes;
  }

  /** Returns the solution. Rejects with {@link Unsolved}, with the error of a shard, or when the thread ends. */
  async solve(order: SolveOrder, readShard: ReadShard): Promise<readonly CondaPackage[]> {
    if (this.#lost) throw this.#lost;
    const { promise, resolve, reject } = Promise.withResolvers<readonly CondaPackage[]>();
    this.#job = { readShard, resolve, reject };
    this.#worker.ref();
    this.#worker.postMessage(order);
    return promise;
  }

  /** Ends the thread; a solve under way is rejected with the reason. */
  async stop(reason: Error): Promise<void> {
    this.#lost ??= reason;
    this.#end()?.reject(reason);
    await endThread(this.#worker);
  }

  #told(message: ThreadMessage): void {
    if ('shard' in message) {
      this.#read(message);
      return;
    }
    this.#memoryBytes = message.memoryBytes;
    if ('solved' in message) this.#end()?.resolve(message.packages);
    else this.#end()?.reject(new Unsolved(message.cause, message.reason));
  }

  #read({ shard, base, hex }: ShardRequest): void {
    const job = this.#job;
    job?.readShard(base, hex).then(
      bytes => {
        if (this.#job === job) this.#worker.postMessage({ shard, bytes } satisfies ShardResponse);
      },
      // The solve cannot go on, and its thread waits for this shard.
      (error: Error) => {
        if (this.#job === job) void this.stop(error);
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
