/**
 * Runs the tests: `npm test` runs all of them, `npm test -- test/oci` those in a folder or file.
 * First installs the tools that these tests need and that are missing.
 */
import { spawnSync } from 'node:child_process';
import { globSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { runFolderVariable } from '../test/world/run-folder.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { neededTools } from './needed-tools.ts';

const folders = process.argv.slice(2);
const files = (folders.length > 0 ? folders : ['test']).flatMap(path =>
  statSync(path).isDirectory() ? globSync(`${path}/**/*.test.ts`) : [path],
);

// Each file is a process, which would compile the same modules again.
const env = {
  ...process.env,
  [runFolderVariable]: (await makeTempDir('run')).path,
  NODE_COMPILE_CACHE: join(import.meta.dirname, '../node_modules/.cache/tests'),
};

const run = (args: readonly string[]): number =>
  spawnSync(process.execPath, args, { stdio: 'inherit', env }).status ?? 1;

const tools = neededTools(files);
const installed = tools.length > 0 ? run(['scripts/tools.ts', ...tools]) : 0;
// Tests wait for programs and pauses: three lanes leave a sixth of two processors idle.
const lanes = Math.min(4, availableParallelism() + 2);
// A test that hangs fails, and the others still run. The longest takes two minutes.
const options = [`--test-concurrency=${lanes}`, '--test-timeout=900000', '--test-reporter=spec'];
const guard = ['--import', './bin/own-imports.js', '--import', './test/world/left-open.ts'];
// As in the server. Garbage collection in the default young generation holds the event loop for 10 ms and more.
const memory = ['--max-semi-space-size=4'];
process.exitCode = installed || run([...memory, ...guard, '--test', ...options, ...files.sort()]);
