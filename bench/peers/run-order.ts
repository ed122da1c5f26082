import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { CondaPackage as SolvedPackage } from '../../src/conda/conda-package.ts';
import { type CondaPackage, packPackage } from '../../test/world/conda-package.ts';
import type { MakerOrder, MakerReport } from './layer-maker.ts';

/** Compiled code that a server keeps, which its threads load: see `bin/sluice.js`. */
const compileCache = fileURLToPath(new URL('../../node_modules/.cache/sluice', import.meta.url));

/** Makes the layers of environments in its own process, with the options of a server. */
export async function makeLayers(order: MakerOrder): Promise<MakerReport> {
  const program = fileURLToPath(new URL('layer-maker.ts', import.meta.url));
  const args = ['--max-semi-space-size=4', program];
  const env = {
    ...process.env,
    MALLOC_ARENA_MAX: '1',
    MALLOC_MMAP_THRESHOLD_: '131072',
    NODE_COMPILE_CACHE: compileCache,
  };
  return JSON.parse(await runOrder(process.execPath, args, order, env)) as MakerReport;
}

/** Returns a package of a channel of the tests as a solver returns it. */
export async function solvedPackage(channel: string, it: CondaPackage): Promise<SolvedPackage> {
  const { fileName, subdir, record } = await packPackage(it);
  const about = record as { size: number; sha256: string };
  return {
    name: it.name,
    version: it.version,
    build: '0',
    buildNumber: 0,
    subdir,
    fileName,
    url: `${channel}/${subdir}/${fileName}`,
    depends: [],
    size: about.size,
    sha256: about.sha256,
    record: { ...about },
  };
}

/** Runs a program that takes a JSON object and returns what it prints. */
export async function runOrder(
  program: string,
  args: readonly string[],
  order: object,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(order));
  return text(child.stdout);
}
