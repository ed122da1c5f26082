import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { setEnvironmentData, Worker, type WorkerOptions } from 'node:worker_threads';
import type { Logger } from './telemetry.ts';

/**
 * Returns the result of the work, or rejects with the reason of the signal when it is aborted first. The work itself goes on,
 * and its failure is then nobody's.
 */
export async function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (!signal) return work;
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([promise, work]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Does the work for each item, a limited number at a time, and returns the results in order. The first failure stops it. */
export async function inTurns<T, R>(
  atOnce: number,
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  let hasFailed = false;
  const workOn = async (): Promise<void> => {
    for (const [position, item] of queue) {
      if (hasFailed) return;
      try {
        results[position] = await work(item);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, workOn));
  return results;
}

/** Waits for an event, but no longer than the time (ms); returns false if it has not come. Rejects if the event does so first. */
export async function atMost(ms: number, event: Promise<unknown> | undefined): Promise<boolean> {
  if (!event) return true;
  const { promise, resolve } = Promise.withResolvers<false>();
  const timer = setTimeout(resolve, ms, false);
  try {
    return await Promise.race([event.then(() => true), promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** A part that is closed, named for the log. */
export type ClosingPart = readonly [part: string, close: () => unknown];

/** Closes the parts one after the other. Logs a part that fails, and continues with the next one. Never rejects. */
export async function closeInTurn(parts: readonly ClosingPart[], log: Logger): Promise<void> {
  for (const [part, close] of parts) {
    try {
      await close();
    } catch (err) {
      log.error(
        { part, err },
        'a part of the server could not be closed properly: the server stops without it',
      );
    }
  }
}

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

/** Enough for the event loop: with 10, threads that share a processor with another program get a tenth of it. */
const laterPriority = 5;

/**
 * Lets all other work go first on the processors. For a thread that works for long: the event loop waits for a free processor up to
 * a hundred milliseconds where some such threads are busy. Linux has a priority for each thread; elsewhere this does nothing.
 */
export function giveWay(): void {
  try {
    const thread = readlinkSync('/proc/thread-self').split('/').at(-1);
    setPriority(Number(thread), laterPriority);
  } catch {
    // Without it, the work is done as well.
  }
}
