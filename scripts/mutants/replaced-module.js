/**
 * Gives Node another text for one module of the project: MUTANT_FILE is the path of the module, MUTANT_TEXT that of a
 * file with its text. The sources stay as they are, so that several mutants can run at the same time. Also ends a
 * process in which nothing happens any more: a test waits for what its mutant never does.
 */
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { performance } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';

const checkMs = 500;
// Unit tests wait for no more than a few threads and files. A process that waits for a processor is not idle.
const longestIdleMs = 3000;

const { MUTANT_FILE = '', MUTANT_TEXT = '' } = process.env;
const replaced = pathToFileURL(MUTANT_FILE).href;

registerHooks({
  load(url, context, next) {
    if (url !== replaced) return next(url, context);
    const source = readFileSync(MUTANT_TEXT, 'utf8');
    return { format: 'module-typescript', source, shortCircuit: true };
  },
});

let before = performance.eventLoopUtilization();
let idleMs = 0;
setInterval(() => {
  const now = performance.eventLoopUtilization();
  const { active, idle } = performance.eventLoopUtilization(now, before);
  before = now;
  idleMs = active < checkMs / 10 ? idleMs + idle : 0;
  if (idleMs > longestIdleMs) process.exit(1);
}, checkMs).unref();
