import { Thread } from '../../foundation/threads.ts';
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

/** The thread of the solver: one solve at a time. */
export class SolveThread {
  readonly #thread: Thread<ThreadMessage>;
  #memoryBytes = 0;

  constructor(settings: ThreadSettings) {
    this.#thread = new Thread(new URL('./solve-worker.ts', import.meta.url), {
      workerData: settings,
      // Shards are outside of its heap; what it reads of them is not.
      heapMb: 96,
      youngHeapMb: 8,
      ended: 'the thread of the solver ended',
    });
  }

  /** True when it cannot solve any more. */
  get isLost(): boolean {
    return this.#thread.isLost;
  }

  /** Bytes that the solver has taken; they are free when the thread ends. */
  get memoryBytes(): number {
    return this.#memoryBytes;
  }

  /** Returns the solution. Rejects with {@link Unsolved}, with the error of a shard, or when the thread ends. */
  async solve(order: SolveOrder, readShard: ReadShard): Promise<readonly CondaPackage[]> {
    let isOver = false;
    const read = async ({ shard, base, hex }: ShardRequest): Promise<void> => {
      try {
        const bytes = await readShard(base, hex);
        if (!isOver) this.#thread.post({ shard, bytes } satisfies ShardResponse);
      } catch (error) {
        // The solve cannot go on, and its thread waits for this shard.
        if (!isOver) await this.stop(error as Error);
      }
    };
    this.#thread.ask(order);
    try {
      for (;;) {
        const message = await this.#thread.next();
        if ('shard' in message) {
          void read(message);
          continue;
        }
        this.#memoryBytes = message.memoryBytes;
        if ('solved' in message) return message.packages;
        throw new Unsolved(message.cause, message.reason);
      }
    } finally {
      isOver = true;
    }
  }

  /** Ends the thread; a solve under way is rejected with the reason. */
  async stop(reason: Error): Promise<void> {
    await this.#thread.end(reason);
  }
}
