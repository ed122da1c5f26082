import { parentPort } from 'node:worker_threads';
import { Fault } from '../../foundation/fault.ts';
import { lowerPriority, Thread } from '../../foundation/threads.ts';
import { isWorkInRoom } from './thread-room.ts';

type TaskResponse<R> =
  | { readonly result: R }
  | { readonly refused: Pick<Fault, 'kind' | 'message'> }
  | { readonly failed: unknown };

/**
 * Runs a task on a thread that ends with it. Throws the error of the task.
 *
 * @param worker a file that calls {@link serveTask}
 * @param signal ends the task with its reason. Default: it has no limit of time
 * @param heapMb memory for what it keeps
 */
export async function runTask<O, R>(
  worker: URL,
  order: O,
  signal?: AbortSignal,
  heapMb = 96,
): Promise<R> {
  await makeRoom();
  await using thread = new Thread<TaskResponse<R>>(worker, { heapMb, youngHeapMb: 8 });
  thread.ask(order);
  const response = await thread.next(signal);
  if ('result' in response) return response.result;
  if ('failed' in response) throw response.failed;
  const { kind, message } = response.refused;
  throw new Fault(kind, message, { phase: 'request' });
}

/** Answers the one order of this thread. */
export function serveTask<O, R>(work: (order: O) => R | Promise<R>): void {
  lowerPriority();
  parentPort?.once('message', async (order: O) =>
    parentPort?.postMessage(await responseOf(() => work(order))),
  );
}

async function responseOf<R>(work: () => R | Promise<R>): Promise<TaskResponse<R>> {
  try {
    return { result: await work() };
  } catch (error) {
    if (!(error instanceof Fault)) return { failed: error };
    const { kind, message } = error;
    return { refused: { kind, message } };
  }
}

/** Memory of the process above which idle threads end before another one starts. */
const roomyBytes = 180 * 1024 * 1024;
/** Memory of the process above which idle threads end while others work. */
const mostWithIdle = 220 * 1024 * 1024;
/** A thread between two packages is not idle for so long. */
const restMs = 500;

interface IdleThread {
  readonly end: () => Promise<unknown>;
  readonly since: number;
}

const idle = new Set<IdleThread>();
let watch: NodeJS.Timeout | undefined;

/**
 * Notes a thread that is kept for later work. {@link makeRoom} may end it, and so may the work of others in a large process.
 *
 * @param end ends the thread; called once at most
 * @returns a function to call when the thread works again, or has ended
 */
export function noteIdle(end: () => Promise<unknown>): () => void {
  const one = { end, since: performance.now() };
  idle.add(one);
  watch ??= setInterval(endRested, restMs).unref();
  return () => idle.delete(one);
}

/** Ends threads that have been idle for a while, when the process is large and others work: these need the memory. */
function endRested(): void {
  if (idle.size === 0) {
    clearInterval(watch);
    watch = undefined;
    return;
  }
  if (!isWorkInRoom() || process.memoryUsage.rss() < mostWithIdle) return;
  const until = performance.now() - restMs;
  // What ends a thread reports its own failure: nobody waits here.
  for (const one of idle) if (one.since <= until) endOne(one).catch(() => {});
}

async function endOne(one: IdleThread): Promise<void> {
  if (idle.delete(one)) await one.end();
}

/**
 * Ends the threads that have nothing to do when the process is large, so that the solver, the threads of layers and
 * those of documents are not in memory together. Call it before a thread starts.
 */
export async function makeRoom(): Promise<void> {
  if (idle.size > 0 && process.memoryUsage.rss() >= roomyBytes) await endIdleThreads();
}

/** Ends all threads that have nothing to do. */
export async function endIdleThreads(): Promise<void> {
  await Promise.all([...idle].map(endOne));
}
