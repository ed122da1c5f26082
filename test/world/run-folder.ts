import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { lockFile } from '../../scripts/tools/lock.ts';
import { makeTempDir, type TempDir } from './temp-dir.ts';

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
