import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lock, lockFile } from '../../scripts/tools/lock.ts';
import { makeTempDir, type TempDir } from './temp-dir.ts';
import { rootDirectory, type Suite, toolsDirectory } from './tools.ts';

/** The variable with the folder of a run of `npm test`, which goes away with the run. */
export const runFolderVariable = 'SLUICE_TEST_RUN';

let own: Promise<TempDir> | undefined;

/** The folder of a test that runs on its own. */
async function ownFolder(): Promise<string> {
  own ??= makeTempDir('run');
  return (await own).path;
}

/**
 * Returns a folder with files that several tests use. The first test of the run that asks for it fills it, and others
 * wait. A test that runs on its own fills one for itself.
 */
export async function sharedFolder(
  name: string,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const run = process.env[runFolderVariable] ?? (await ownFolder());
  const [folder, filled] = [join(run, name), join(run, `${name}.filled`)];
  using _lock = await lockFile(`${folder}.lock`);
  if (!existsSync(filled)) {
    await mkdir(folder, { recursive: true });
    await fill(folder);
    await mkdir(filled);
  }
  return folder;
}

const keptMs = 14 * 24 * 3_600_000;

/**
 * Returns a folder with files that later runs use too, beside the tools. It is filled when there is none for these
 * sources, and goes away when none of the runs of two weeks has asked for it.
 *
 * @param sources all that decides about the files. Those of equal sources are equal
 */
export async function keptFolder(
  name: string,
  sources: readonly string[],
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(sources)).digest('hex').slice(0, 12);
  const kept = join(toolsDirectory(), 'made');
  const folder = join(kept, `${name}-${hash}`);
  using _lock = await lock(`made-${name}`);
  if (!existsSync(folder)) {
    await removeUnused(kept, name);
    const draft = `${folder}.draft`;
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { recursive: true });
    await fill(draft);
    await rename(draft, folder);
  }
  await utimes(folder, new Date(), new Date());
  return folder;
}

async function removeUnused(kept: string, name: string): Promise<void> {
  await mkdir(kept, { recursive: true });
  for (const other of await readdir(kept)) {
    const folder = join(kept, other);
    const isUnused = (await stat(folder)).mtimeMs < Date.now() - keptMs;
    if (other.startsWith(`${name}-`) && isUnused) await rm(folder, { recursive: true });
  }
}

/** Returns what decides about files that a module makes: the text of the module and of others that it uses. */
export function textsOf(...modules: readonly string[]): string[] {
  return modules.map(module =>
    readFileSync(fileURLToPath(new URL(module, import.meta.url)), 'utf8'),
  );
}

/** Returns what decides about files of Debian's packages: those of a private root, or of this machine, and their versions. */
export function packagesOf(suite?: Suite): string {
  const root = suite === undefined ? '/' : rootDirectory(suite);
  return readFileSync(join(root, 'var/lib/dpkg/status'), 'utf8');
}
