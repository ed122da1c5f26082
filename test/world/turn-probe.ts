import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { isMainThread } from 'node:worker_threads';

// Preloaded into a server (`node --import`): records how long its event loop was blocked at a time.
// It measures the processor time of the main thread, not the clock: on a busy machine a process waits without a fault.

/** What the probe has seen since it was last read. */
export interface Turns {
  /** The longest time that one turn of the event loop took, in ms of processor time. */
  readonly longestMs: number;
  /** Resident memory in bytes. */
  readonly rss: number;
  readonly heapUsed: number;
}

const everyMs = 2;
const path = process.env.TURN_PROBE;

if (path !== undefined && isMainThread) watch(path);

function watch(socket: string): void {
  let longestMs = 0;
  let before = process.threadCpuUsage();
  setInterval(() => {
    const now = process.threadCpuUsage();
    longestMs = Math.max(longestMs, (now.user + now.system - before.user - before.system) / 1000);
    before = now;
  }, everyMs).unref();
  rmSync(socket, { force: true });
  createServer(connection => {
    connection.on('error', () => {});
    const { rss, heapUsed } = process.memoryUsage();
    connection.end(JSON.stringify({ longestMs, rss, heapUsed } satisfies Turns));
    longestMs = 0;
    before = process.threadCpuUsage();
  })
    .listen(socket)
    .unref();
}
