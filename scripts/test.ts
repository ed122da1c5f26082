/**
 * Runs the tests: `npm test`, or `npm test -- test/oci` for those below a folder or in a file.
 * Installs what they need first; where everything is there, that takes no time.
 */
import { spawnSync } from 'node:child_process';
import { globSync, statSync } from 'node:fs';

const folders = process.argv.slice(2);
const files = (folders.length > 0 ? folders : ['test']).flatMap(path =>
  statSync(path).isDirectory() ? globSync(`${path}/**/*.test.ts`) : [path],
);

const needsWorld = files.some(path => /test\/(?:integration|faults|sif|world|corpus)/.test(path));
const run = (args: readonly string[]): number =>
  spawnSync(process.execPath, args, { stdio: 'inherit' }).status ?? 1;

const installed = needsWorld ? run(['scripts/tools.ts']) : 0;
// A test that hangs fails, and lets the others run: the longest takes two minutes.
const options = ['--test-concurrency=2', '--test-timeout=900000', '--test-reporter=spec'];
const guard = ['--import', './test/world/left-open.ts'];
process.exitCode = installed || run([...guard, '--test', ...options, ...files.sort()]);
