import { Semaphore } from '../../foundation/semaphore.ts';
import { runTask } from '../threads/one-task.ts';
import type { LockOrder } from './lock-worker.ts';
import { type LockedPackages, maxLockLength, readLockText } from './read-lock-text.ts';

// Up to 10 ms here; larger ones would hold the event loop.
const shortLength = 128 * 1024;
const queue = new Semaphore({ limit: 1 });

/** Reads a lock file as {@link readLockText} does, a large one on another thread. */
export type ReadLock = (text: string, subdir: string, name: string) => Promise<LockedPackages>;

export const readLock: ReadLock = async (text, subdir, name) => {
  if (text.length <= shortLength || text.length > maxLockLength) {
    return readLockText(text, subdir, name);
  }
  const worker = new URL('./lock-worker.ts', import.meta.url);
  return queue.run(() => runTask(worker, { text, subdir, name } satisfies LockOrder));
};
