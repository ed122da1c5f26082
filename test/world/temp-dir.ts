import { mkdtemp, readFile, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sweepAtEnd } from './sweeper.ts';

/** The variable with the folder for temporary files on a disk, while `TMPDIR` names one in memory. */
export const diskVariable = 'SLUICE_TEST_DISK';

const inMemory = '/dev/shm';
// A run of all tests holds up to 5 GiB at once.
const muchMemory = 8 * 1024 ** 3;

/** Returns the folder for temporary files on a disk. Files in memory would count for the memory limit of a control group. */
export function diskFolder(): string {
  return process.env[diskVariable] ?? tmpdir();
}

/**
 * Returns the folder for temporary files whose disk does not matter: in memory where there is room, or else on a disk, which takes a
 * tenth more processor time for all tests, and a fifth more for a builder.
 */
export async function quickFolder(): Promise<string> {
  // Less than the machine has free, in a container with a limit.
  if (process.availableMemory() < muchMemory) return diskFolder();
  const state = await statfs(inMemory).catch(() => undefined);
  const hasRoom = state !== undefined && state.bavail * state.bsize > muchMemory;
  return hasRoom && (await allowsPrograms(inMemory)) ? inMemory : diskFolder();
}

async function allowsPrograms(mounted: string): Promise<boolean> {
  const mounts = await readFile('/proc/self/mounts', 'utf8').catch(() => '');
  const options = mounts
    .split('\n')
    .map(line => line.split(' '))
    .findLast(([, place]) => place === mounted)?.[3];
  return options !== undefined && !options.split(',').includes('noexec');
}

/**
 * A temporary directory; `remove` takes it away with all that is in it, and so does the end of this
 * process.
 */
export interface TempDir extends AsyncDisposable {
  readonly path: string;
  join(...parts: string[]): string;
  remove(): Promise<void>;
}

export async function makeTempDir(purpose: string, parent = tmpdir()): Promise<TempDir> {
  const path = await mkdtemp(join(parent, `sluice-${purpose}-`));
  sweepAtEnd(path);
  const remove = () => rm(path, { recursive: true, force: true, maxRetries: 5 });
  return {
    path,
    join: (...parts) => join(path, ...parts),
    remove,
    [Symbol.asyncDispose]: remove,
  };
}
