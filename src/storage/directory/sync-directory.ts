import { closeSync, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Brings the names in a directory to the disk. Only then is a new or renamed file safe. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * Does the same synchronously, for a directory and the new directories above it.
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
