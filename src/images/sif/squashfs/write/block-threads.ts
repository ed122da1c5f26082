import { availableParallelism } from 'node:os';
import { Thread } from '../../../../foundation/threads.ts';
import type { Compression } from '../compression.ts';
import type { BlockOrder, BlockResponse, BlockWorkerData } from './block-worker.ts';
import { blockBytes } from './written-inodes.ts';

/** Memory for one block, which threads share. */
export interface Slot {
  readonly index: number;
  /** Room for a block. */
  readonly bytes: Buffer;
}

/** What became of a block. */
export interface MadeBlock {
  /** The bytes to store, in the memory of the slot; undefined for a block of zeros. */
  readonly bytes: Uint8Array | undefined;
  readonly isPacked: boolean;
  readonly digest: string;
}

/** The main thread reads and writes about as fast as these compress. */
const mostThreads = 8;
/** Blocks per thread: one that is compressed, one that waits, and one that is filled or written. */
const slotsPerThread = 3;

interface BlockThread {
  readonly thread: Thread<BlockResponse>;
  blocks: number;
}

/** A block that is on a thread. */
interface AwaitedBlock {
  respond(response: BlockResponse): void;
  reject(reason: unknown): void;
}

/** Threads that compress blocks of content. They start when they are needed. */
export class BlockThreads {
  readonly #threads: BlockThread[] = [];
  readonly #most: number;
  readonly #data: BlockWorkerData;
  readonly #free: Slot[];
  readonly #awaited = new Map<number, AwaitedBlock>();
  #nextSlot: PromiseWithResolvers<Slot> | undefined;
  #failure: { readonly reason: unknown } | undefined;

  /**
   * @param compression undefined to store all blocks as they are
   * @param processors number of threads. Default: the number of processors, at most 8.
   */
  constructor(compression: Compression | undefined, processors?: number) {
    this.#most = Math.min(processors ?? availableParallelism(), mostThreads);
    const slots = slotsPerThread * this.#most + 1;
    const shared = () => new Uint8Array(new SharedArrayBuffer(slots * blockBytes));
    this.#data = { compression, input: shared(), output: shared() };
    this.#free = Array.from({ length: slots }, (_, index) => ({
      index,
      bytes: Buffer.from(this.#data.input.buffer, index * blockBytes, blockBytes),
    }));
  }

  /** Resolves with memory for a block when there is some; one caller may wait. Throws the reason of {@link fail}. */
  async take(): Promise<Slot> {
    if (this.#failure) throw this.#failure.reason;
    const slot = this.#free.pop();
    if (slot) return slot;
    this.#nextSlot = Promise.withResolvers<Slot>();
    return this.#nextSlot.promise;
  }

  /** Takes memory back that is not used any more. */
  give(slot: Slot): void {
    const waiting = this.#nextSlot;
    this.#nextSlot = undefined;
    if (waiting) waiting.resolve(slot);
    else this.#free.push(slot);
  }

  /** Compresses the first bytes of a slot. */
  compress(
    { index }: Slot,
    bytes: number,
    options: Pick<BlockOrder, 'mayBeHole' | 'isHashed'>,
  ): Promise<MadeBlock> {
    if (this.#failure) return Promise.reject(this.#failure.reason);
    const own = this.#idlest();
    own.blocks += 1;
    return new Promise((resolve, reject) => {
      const start = index * blockBytes;
      const { input, output } = this.#data;
      const respond = ({ size, digest = '' }: BlockResponse) => {
        own.blocks -= 1;
        if (size === 0) resolve({ bytes: undefined, isPacked: false, digest });
        else if (size < 0) {
          resolve({ bytes: input.subarray(start, start + bytes), isPacked: false, digest });
        } else resolve({ bytes: output.subarray(start, start + size), isPacked: true, digest });
      };
      this.#awaited.set(index, { respond, reject });
      own.thread.post({ slot: index, bytes, ...options } satisfies BlockOrder);
    });
  }

  /** Makes everything that waits, and all later calls, fail. */
  fail(reason: unknown): void {
    if (this.#failure) return;
    this.#failure = { reason };
    this.#nextSlot?.reject(reason);
    for (const { reject } of this.#awaited.values()) reject(reason);
    this.#awaited.clear();
  }

  /** Ends the threads. */
  async end(): Promise<void> {
    this.fail(new Error('the squashfs is not written any more'));
    await Promise.all(this.#threads.map(({ thread }) => thread.end()));
  }

  #idlest(): BlockThread {
    let best: BlockThread | undefined;
    for (const one of this.#threads) if (!best || one.blocks < best.blocks) best = one;
    if (best && (best.blocks === 0 || this.#threads.length === this.#most)) return best;
    // It keeps nothing but the block that it compresses.
    const thread = new Thread<BlockResponse>(new URL('./block-worker.ts', import.meta.url), {
      workerData: this.#data,
      heapMb: 32,
      youngHeapMb: 2,
      ended: 'a thread that compresses a Singularity image ended',
    });
    const started = { thread, blocks: 0 };
    this.#threads.push(started);
    this.#receive(thread).catch(reason => this.fail(reason));
    return started;
  }

  async #receive(thread: Thread<BlockResponse>): Promise<never> {
    for (;;) {
      const response = await thread.next();
      const awaited = this.#awaited.get(response.slot);
      this.#awaited.delete(response.slot);
      awaited?.respond(response);
    }
  }
}
