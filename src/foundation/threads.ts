import { setTimeout as sleep } from 'node:timers/promises';
import { setEnvironmentData, Worker, type WorkerOptions } from 'node:worker_threads';

/** The name under which a thread finds its gate. */
export const gateName = 'sluice.zlib';

/** What the number of a gate means: nobody is in it, the thread makes a zlib stream, or it may make no more. */
export const gate = { open: 0, taken: 1, closed: 2 } as const;

const gates = new WeakMap<Worker, Int32Array>();

// A thread is in its gate while it unpacks a page or a record, not longer.
const longestMs = 5000;
const lookMs = 1;

/**
 * Starts a thread that {@link endThread} may end at any moment. Its file imports `foundation/gated-zlib.ts` if anything in
 * it uses zlib.
 */
export function startThread(file: URL, options: WorkerOptions = {}): Worker {
  const own = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  setEnvironmentData(gateName, own);
  const worker = new Worker(file, options);
  gates.set(worker, own);
  return worker;
}

/**
 * Ends a thread, whatever it does. Node ends the whole process if a thread is terminated between the two steps in which
 * it makes a zlib stream (`CHECK(init_done_ && "close before init")` in `src/node_zlib.cc`), so this waits for that.
 */
export async function endThread(worker: Worker): Promise<void> {
  const own = gates.get(worker);
  const until = performance.now() + longestMs;
  while (own && Atomics.compareExchange(own, 0, gate.open, gate.closed) === gate.taken) {
    if (performance.now() > until) break;
    await sleep(lookMs);
  }
  await worker.terminate();
}
