/**
 * Changes one thing at a time in the modules that decide about rights, digests, limits, keys and redirects, and runs the
 * unit tests of the module: `npm run mutants`, or `npm run mutants -- TEXT ...` for those with a text in their path. Prints the mutants that
 * no test noticed, and the score of each file. Fails below 90 of 100.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { API } from 'typescript/unstable/sync';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { type HeldModule, heldModules } from './mutants/held-modules.ts';
import { mutantsOf } from './mutants/mutants-of.ts';

/** Of 100 mutants. */
const leastScore = 90;
const lanes = 2;
/** A mutant that never ends is noticed: after this time, or 20 times that of the tests without a mutant. */
const leastLimitMs = 10_000;

const root = resolve(import.meta.dirname, '..');
const folder = await makeTempDir('mutants');
const env = { ...process.env, NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/tests') };

const options = [
  ...['--import', './bin/own-imports.js', '--import', './scripts/mutants/replaced-module.js'],
  ...['--test-reporter', './scripts/mutants/first-failure.js'],
  ...['--test-reporter-destination', 'stdout'],
];

/** Texts that the compiler reads in place of files. */
const texts = new Map<string, string>();
const compiler = new API({ cwd: root, fs: { readFile: path => texts.get(path) } });
const config = join(root, 'tsconfig.json');

function program(changed: string[] = []) {
  const snapshot = compiler.updateSnapshot({ openProjects: [config], fileChanges: { changed } });
  const project = snapshot.getProject(config);
  if (!project) throw new Error(`${config} is not a project: run npm run mutants in the project`);
  return project.program;
}

/** Returns whether `npm run check` rejects a module with another text: no test needs to. */
function isRejected(path: string, text: string): boolean {
  texts.set(path, text);
  const faults = program([path]).getSemanticDiagnostics(path);
  texts.delete(path);
  program([path]);
  return faults.length > 0;
}

/** Returns whether a test of the module fails. */
async function isKilled(
  { tests }: HeldModule,
  path: string,
  mutant: string,
  timeout?: number,
): Promise<boolean> {
  for (const test of tests) {
    const child = spawn(process.execPath, [...options, test], {
      cwd: root,
      env: { ...env, MUTANT_FILE: path, MUTANT_TEXT: mutant },
      stdio: 'ignore',
      timeout,
      killSignal: 'SIGKILL',
    });
    const [code] = await once(child, 'exit');
    if (code !== 0) return true;
  }
  return false;
}

interface Score {
  readonly killed: number;
  readonly count: number;
}

/** Runs the mutants of a module, and prints those that no test noticed. */
async function scoreOf(held: HeldModule): Promise<Score> {
  const path = join(root, held.file);
  const source = program().getSourceFile(path);
  if (!source) throw new Error(`scripts/mutants/held-modules.ts: ${held.file} does not exist`);
  const same = join(folder.path, 'same.ts');
  writeFileSync(same, readFileSync(path));
  const began = performance.now();
  if (await isKilled(held, path, same)) throw new Error(`The tests of ${held.file} fail as it is`);
  const limitMs = Math.max(leastLimitMs, Math.ceil(20 * (performance.now() - began)));
  const equal = new Set(held.equal?.map(([what]) => what));
  const used = new Set<string | undefined>();
  const mutants = mutantsOf(source).filter(({ change, constant = '' }) => {
    const what = [constant, change].find(one => equal.has(one));
    used.add(what);
    return what === undefined;
  });
  for (const what of equal) {
    if (!used.has(what)) console.log(`${held.file}: '${what}' in the table is no mutant`);
  }
  let [living, rejected] = [0, 0];
  const waiting = mutants.entries();
  const lane = async (name: number) => {
    for (const [, mutant] of waiting) {
      const file = join(folder.path, `${name}.ts`);
      writeFileSync(file, mutant.text);
      if (await isKilled(held, path, file, limitMs)) continue;
      if (isRejected(path, mutant.text)) {
        rejected += 1;
        continue;
      }
      living += 1;
      console.log(`${held.file}:${mutant.line}  ${mutant.change}`);
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, name) => lane(name)));
  const count = mutants.length - rejected;
  return { killed: count - living, count };
}

const named = process.argv.slice(2);
const absent = named.filter(text => !heldModules.some(({ file }) => file.includes(text)));
if (absent.length > 0) {
  console.error(
    `No module has '${absent.join("' or '")}' in its path: the modules are in scripts/mutants/held-modules.ts`,
  );
  process.exit(2);
}
const chosen = heldModules.filter(
  ({ file }) => named.length === 0 || named.some(text => file.includes(text)),
);
const rows: string[] = [];
let [allKilled, all] = [0, 0];
const rowOf = (file: string, killed: number, count: number) => {
  const score = count === 0 ? 100 : Math.floor((100 * killed) / count);
  return `${String(score).padStart(4)}  ${`${killed}/${count}`.padStart(9)}  ${file}`;
};
for (const held of chosen) {
  const { killed, count } = await scoreOf(held);
  const row = rowOf(held.file, killed, count);
  console.log(row);
  rows.push(row);
  allKilled += killed;
  all += count;
}
compiler.close();
console.log(['', 'score     killed  module', ...rows, rowOf('all', allKilled, all)].join('\n'));
if (allKilled * 100 < leastScore * all) process.exitCode = 1;
