/**
 * Runs the tests: `npm test` runs all of them, `npm test -- test/oci` those in a folder or file, `npm test -- digest` those with
 * the text in their path. `npm run test:fast` runs those that need no program but Node; most of these share a few processes. First installs the tools that these tests need and that are missing, and makes
 * the bundle that servers run. Ends with the files that took the most time.
 */
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, statSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import { responseCheckVariable } from '../test/world/misfits.ts';
import { runFolderVariable } from '../test/world/run-folder.ts';
import { diskFolder, diskVariable, makeTempDir, quickFolder } from '../test/world/temp-dir.ts';
import { type FileTimes, timesVariable } from '../test/world/times.ts';
import { makeBundle } from './bundle.ts';
import { neededTools } from './needed-tools.ts';
import { lock } from './tools/lock.ts';

const options = { fast: { type: 'boolean', default: false } } as const;
const { values, positionals } = parseArgs({ options, allowPositionals: true });
const found = (positionals.length > 0 ? positionals : ['test']).flatMap(testFiles);
const needsTools = (file: string) => neededTools([file]).length > 0;
const [slow = [], fast = []] = [true, false].map(is => found.filter(one => needsTools(one) === is));
const files = values.fast ? fast : [...slow, ...fast];

process.env[diskVariable] = diskFolder();
process.env.TMPDIR = await quickFolder();
const folder = await makeTempDir('run');
const record = folder.join('times');
Object.assign(process.env, {
  [runFolderVariable]: folder.path,
  [timesVariable]: record,
  // Each file is a process, which would compile the same modules again.
  NODE_COMPILE_CACHE: join(import.meta.dirname, '../node_modules/.cache/tests'),
});

const tools = neededTools(files);
const { status } =
  tools.length > 0
    ? spawnSync(process.execPath, ['scripts/tools.ts', ...tools], { stdio: 'inherit' })
    : { status: 0 };
if (status !== 0) process.exit(status ?? 1);

// Tests start several hundred servers, and each would take half as much processor time again without it. One file starts
// few, and is run after each change.
if (files.length > 1) {
  await renewBundle();
  // Loaded here only: the packages under it take longer to load than the test of one file.
  const { bundleResponseCheck } = await import('../test/world/response-check-bundle.ts');
  process.env[responseCheckVariable] = await bundleResponseCheck(folder.join('response-check'));
}

const preloaded = ['bin/own-imports.js', 'test/world/left-open.ts', 'test/world/times.ts'];
const began = performance.now();
const interrupted = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.once(name, () => {
    process.exitCode = 1;
    interrupted.abort();
  });
}
// Those that take the least time come last, so that no long one runs alone at the end.
const [joined = [], single = []] = [true, false].map(is =>
  fast.filter(one => isJoined(one) === is),
);
const tests = run({
  files: [...(values.fast ? [] : slow), ...single, ...(await joinedFiles(joined))],
  signal: interrupted.signal,
  // Tests wait for programs, disks and pauses: with four lanes, a sixth of two processors was idle.
  concurrency: Math.min(6, availableParallelism() + 3),
  // A test that hangs fails, and the others still run. The longest takes two minutes.
  timeout: 900_000,
  execArgv: [
    // As in the server. Garbage collection in the default young generation holds the event loop for 10 ms and more.
    '--max-semi-space-size=4',
    ...preloaded.flatMap(file => ['--import', `./${file}`]),
  ],
});
tests.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
let counted: { readonly [name: string]: number } = {};
tests.on('test:summary', ({ file, counts }) => {
  if (file === undefined) counted = counts;
});
for await (const text of tests.compose(spec())) process.stdout.write(text);

// The end of a run that has failed says why.
if (process.exitCode !== undefined) process.exit();
const lines = (await readFile(record, 'utf8')).split('\n').filter(Boolean);
const times = lines.map(line => JSON.parse(line) as FileTimes);
times.sort((one, other) => other.processorSeconds - one.processorSeconds);
const sum = times.reduce((total, { processorSeconds }) => total + processorSeconds, 0);
const columns = (...seconds: readonly number[]) =>
  seconds.map(value => value.toFixed(1).padStart(9)).join('');
console.log(`\n  elapsed processor  (s)\n${columns((performance.now() - began) / 1000, sum)}  all`);
for (const { file, elapsedSeconds, processorSeconds } of times.slice(0, 25)) {
  console.log(`${columns(elapsedSeconds, processorSeconds)}  ${relative('.', file)}`);
}
// The last line has the counts, as that of `node --test`. A run with a failure does not come here.
const { tests: count = 0, passed = 0, cancelled = 0, skipped = 0 } = counted;
console.log(
  `\nℹ tests ${count}, pass ${passed}, fail 0, cancelled ${cancelled}, skipped ${skipped}`,
);

/** Returns the test files at a path or, where nothing is, those with the text in their path. */
function testFiles(text: string): readonly string[] {
  const state = statSync(text, { throwIfNoEntry: false });
  if (state?.isFile()) return [text];
  const files = globSync(`${state ? text : 'test'}/**/*.test.ts`).sort();
  const chosen = state ? files : files.filter(file => file.includes(text));
  if (chosen.length > 0) return chosen;
  console.error(`No test file is at '${text}' or has it in its path`);
  process.exit(2);
}

/**
 * Returns true for a file whose tests may run in one process with those of other files: they change nothing that belongs to the whole
 * process, and measure nothing of it.
 */
function isJoined(file: string): boolean {
  const ofProcess =
    /process\.(?!cwd|execPath|platform|arch|version)|globalThis|\bmock\b|memory|longest-block|registerHooks|setGlobal|child_process|worker_threads|world\/(?:daemon|program|sluice)/;
  return !ofProcess.test(readFileSync(file, 'utf8'));
}

/** Returns files that run the tests of several others. A few files run alone, as each does when it is named. */
async function joinedFiles(joined: readonly string[]): Promise<readonly string[]> {
  const most = 24;
  const count = Math.ceil(joined.length / most);
  if (count < 2) return joined;
  const module = JSON.stringify(join(import.meta.dirname, '../test/world/joined-files.ts'));
  return Promise.all(
    Array.from({ length: count }, async (_, at) => {
      const part = joined.filter((_, index) => index % count === at);
      const path = folder.join(`joined-${at + 1}.mjs`);
      await writeFile(
        path,
        `import { joinFiles } from ${module};\njoinFiles(${JSON.stringify(part, undefined, 2)});\n`,
      );
      return path;
    }),
  );
}

/** Makes the bundle of the project if a source file has changed since it was made. */
async function renewBundle(): Promise<void> {
  // JavaScript without types, because `bin/sluice.js` imports it.
  const { currentBundle } = (await import(`${import.meta.dirname}/../bin/bundle.js`)) as {
    currentBundle(): string | undefined;
  };
  if (currentBundle() !== undefined) return;
  using _lock = await lock('bundle');
  if (currentBundle() === undefined) await makeBundle();
}
