import { Thread } from '../../../foundation/threads.ts';

/** Keeps the write-ahead log short, from another thread: the main one never waits for the disk. */
interface Checkpoints {
  /**
   * Resolves when the next transaction may begin; returns undefined when it may begin at once. Called before each
   * one.
   */
  pause(): Promise<void> | undefined;
  /** Copies everything in the log into the database file. Throws when that fails. */
  complete(): Promise<void>;
  close(): Promise<void>;
}

/** `copy` while others write; `finish` while nobody does, so that the log can begin again. */
export type CheckpointOrder = 'copy' | 'finish' | 'close';

export interface Checkpointed {
  /** Pages in the log. */
  readonly pages: number;
  /** All of them are in the database file, on the disk. */
  readonly isWhole: boolean;
  readonly failure?: string;
}

const intervalMs = 500;
const retryMs = 30_000;
// 16 MiB.
const longestLogPages = 4096;

/** @param path file of an open database that makes no checkpoints itself */
export function createCheckpoints(
  path: string,
  onFailure: (reason: string) => void = () => {},
): Checkpoints {
  let thread: Thread<Checkpointed> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<Checkpointed> | undefined;
  let isLong = false;
  let isClosed = false;

  const ask = async (order: CheckpointOrder): Promise<Checkpointed> => {
    while (running) await running;
    running = send(order).catch(error => {
      // The next one has a new thread.
      thread = undefined;
      return { pages: 0, isWhole: false, failure: String(error) };
    });
    try {
      return await running;
    } finally {
      running = undefined;
    }
  };
  const send = async (order: CheckpointOrder): Promise<Checkpointed> => {
    if (!thread || thread.isLost) {
      const worker = new URL('./checkpoint-worker.ts', import.meta.url);
      thread = new Thread(worker, { workerData: { path } });
    }
    thread.ask(order);
    return thread.next();
  };
  const copy = async (): Promise<void> => {
    timer = undefined;
    if (isClosed) return;
    const { pages, failure } = await ask('copy');
    isLong = pages > longestLogPages;
    if (failure === undefined || isClosed) return;
    onFailure(failure);
    timer ??= setTimeout(copy, retryMs).unref();
  };

  return {
    pause() {
      timer ??= isClosed ? undefined : setTimeout(copy, intervalMs).unref();
      if (!isLong) return undefined;
      isLong = false;
      return ask('finish').then(() => {});
    },
    async complete() {
      const { isWhole, failure } = await ask('finish');
      if (!isWhole) throw new Error(failure ?? 'the log could not be copied into the database');
    },
    async close() {
      isClosed = true;
      clearTimeout(timer);
      while (running) await running;
      thread?.post('close' satisfies CheckpointOrder);
      // The thread ends, so this rejects.
      await thread?.next().catch(() => {});
    },
  };
}
