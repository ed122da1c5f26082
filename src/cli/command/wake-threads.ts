import { stat } from 'node:fs';

const everyMs = 500;

/**
 * Wakes the threads of Node's pool regularly. The condition variables of glibc before 2.41 rarely lose a wakeup (glibc bug
 * 25847); the next work then wakes the threads. A server always has more work, but a command that waits for one file
 * would wait forever.
 */
export function wakeThreads(): void {
  setInterval(() => stat('/', () => {}), everyMs).unref();
}
