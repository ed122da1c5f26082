/**
 * Loaded before every test file. A test file that still has something open after its tests, such as a server of a
 * failed test, would block the whole run: it is ended, and prints what is open.
 */
import { after } from 'node:test';
import { wakeThreads } from '../../src/cli/command/run-command-line.ts';

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
