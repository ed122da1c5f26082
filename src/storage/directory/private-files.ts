import { randomBytes, randomUUID } from 'node:crypto';
import {
  closeSync,
  existsSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { chmod, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncDirectoriesNow } from './disk-sync.ts';

const keyBytes = 32;

/** Returns the secret in a file that only its owner can read. Creates a new secret where there is no file. */
export function readKeyFile(path: string): Buffer {
  if (!existsSync(path)) writeOnce(path, randomBytes(keyBytes));
  const key = readFileSync(path);
  if (key.length >= keyBytes) return key;
  throw new Error(
    `${path} does not contain a key: restore it from a backup, or remove it to get a new key`,
  );
}

/**
 * Makes a file that only its owner can read, unless it exists. The file is complete or absent, even when other
 * processes make it at the same time or the power fails.
 */
export function writeOnce(path: string, bytes: string | Uint8Array): void {
  const draft = `${path}.${randomUUID()}`;
  try {
    writeFileSync(draft, bytes, { mode: 0o600, flag: 'wx', flush: true });
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  syncDirectoriesNow(dirname(path), undefined);
}

/** Only the owner may read these entries at the top of a data directory, older ones included. */
const privateDirectories = [
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
  for (const name of privateDirectories) await narrowMode(join(data, name), directoryMode, refused);
  for (const entry of await readdir(data, { withFileTypes: true })) {
    if (entry.isFile()) await narrowMode(join(data, entry.name), fileMode, refused);
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

async function narrowMode(path: string, mode: number, refused: string[]): Promise<void> {
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
