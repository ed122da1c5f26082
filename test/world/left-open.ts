/**
 * Loaded before every test file. One whose tests have ended while something is still open, a server that a
 * failed test did not close, would wait for it for ever, and the whole run with it: it is ended, and says
 * what was open.
 */
import { after } from 'node:test';
import { wakeThreads } from '../../src/cli/command/wake-threads.ts';

const graceMs = 60_000;

wakeThreads();

after(() => {
  const end = () => {
    const open = process.getActiveResourcesInfo().join(', ');
    console.error(`The tests have ended ${graceMs / 1000} s ago, and this is still open: ${open}`);
    process.exit(1);
  };
  setTimeout(end, graceMs).unref();
});
