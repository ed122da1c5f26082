/**
 * Loaded before every test file. A test file that still has something open after its tests, such as a server of a
 * failed test, would block the whole run: it is ended, and prints what is open.
 */
import { isMainThread } from 'node:worker_threads';
import { wakeThreads } from '../../src/cli/command/wake-threads.ts';

const graceMs = 60_000;

// Each thread that a test starts loads this file too, and has no tests.
if (isMainThread) {
  const { after } = await import('node:test');
  wakeThreads();
  after(() => {
    const end = () => {
      const open = process.getActiveResourcesInfo().join(', ');
      console.error(
        `The tests have ended ${graceMs / 1000} s ago, and this is still open: ${open}`,
      );
      process.exit(1);
    };
    setTimeout(end, graceMs).unref();
  });
}
