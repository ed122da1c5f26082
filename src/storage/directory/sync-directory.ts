import { closeSync, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Brings the names in a directory to the disk: a file that was made or renamed is safe only then. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * The same, while nothing else is done, for a directory and for what was made above it.
 * @param made the topmost directory that is new, as `mkdirSync` returns it
 */
export function syncDirectoriesNow(path: string, made: string | undefined): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
  if (made !== undefined && path.startsWith(made)) syncDirectoriesNow(dirname(path), made);
}
