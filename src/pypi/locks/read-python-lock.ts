import { runTask } from '../../conda/threads/one-task.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import type { ChosenPackages, WantedPython } from './choose-locked.ts';
import type { PythonLockOrder } from './read-toml-lock.ts';

/** Reads Python lock files on a thread: small ones can take long. */
export interface ReadPythonLock {
  /** Returns the Python that a lock file is installed with. Throws a `Fault` (400). */
  python(order: Omit<PythonLockOrder, 'version'>): Promise<WantedPython>;
  /** Returns what a lock file installs with a Python. Throws a `Fault` (400). */
  packages(order: PythonLockOrder & { readonly version: string }): Promise<ChosenPackages>;
}

const queue = new Semaphore({ limit: 1 });
const worker = new URL('./python-lock-worker.ts', import.meta.url);

export const readPythonLock: ReadPythonLock = {
  python: order => queue.run(() => answer(order)),
  packages: order => queue.run(() => answer(order)),
};

const longestMs = 10_000;

async function answer<R>(order: PythonLockOrder): Promise<R> {
  try {
    return await runTask(worker, order, AbortSignal.timeout(longestMs));
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw new Fault(
      'bad-request',
      `${order.name}: it takes too long or too much memory to read: send a smaller lock file`,
      { phase: 'request', cause: error },
    );
  }
}
