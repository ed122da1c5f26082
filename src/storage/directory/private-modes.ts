import { closeSync, existsSync, openSync } from 'node:fs';
import { chmod, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Only the owner may read these entries at the top of a data directory, older ones included. */
const directories = [
  '.',
  'content',
  'content/blobs',
  'content/tmp',
  'content/journal',
  'bucket',
  'logs',
  'logs/builds',
  'sif',
];
const directoryMode = 0o700;
const fileMode = 0o600;

/**
 * Takes all rights of other users away from the data directory and from the files at its top: rows, keys, locks.
 * Other users cannot reach deeper files without these rights. Returns the paths whose modes this user may not change.
 */
export async function makePrivate(data: string): Promise<string[]> {
  const refused: string[] = [];
  for (const name of directories) await narrow(join(data, name), directoryMode, refused);
  for (const entry of await readdir(data, { withFileTypes: true })) {
    if (entry.isFile()) await narrow(join(data, entry.name), fileMode, refused);
  }
  return refused;
}

/**
 * Makes an empty file, for its owner alone, where there is none. SQLite gives its log the mode of the database. An
 * existing file stays untouched: closing a file that a connection of this process has open would end the locks of
 * that connection.
 */
export function makePrivateFile(path: string): void {
  if (!existsSync(path)) closeSync(openSync(path, 'a', fileMode));
}

async function narrow(path: string, mode: number, refused: string[]): Promise<void> {
  try {
    const found = await stat(path);
    if ((found.mode & 0o777 & ~mode) !== 0) await chmod(path, found.mode & mode);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return;
    if (code !== 'EPERM' && code !== 'EROFS') throw error;
    refused.push(path);
  }
}
