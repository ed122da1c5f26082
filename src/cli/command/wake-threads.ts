import { stat } from 'node:fs';

const everyMs = 500;

/**
 * Keeps work for Node's thread pool from lying there while all its threads sleep. The condition variables of glibc
 * before 2.41 lose a wakeup once in a long while (glibc bug 25847); the next work wakes the threads. A server always has
 * some, but a command that waits for one file would wait for ever.
 */
export function wakeThreads(): void {
  setInterval(() => stat('/', () => {}), everyMs).unref();
}
