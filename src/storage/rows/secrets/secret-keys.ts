import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { readKeyFile, syncDirectoriesNow, writeOnce } from '../../directory/index.ts';
import { createSecretBox, type SecretBox } from './secret-box.ts';

const keyBytes = 32;

function pathsOf(data: string) {
  const current = join(data, 'secrets.key');
  return { current, previous: `${current}.previous`, next: `${current}.next` };
}

/**
 * Returns the box with the key of a data directory, and with the previous key while it exists. Creates a key where
 * there is none.
 */
export function openSecretBox(data: string): SecretBox {
  const { current, previous } = pathsOf(data);
  const key = readKeyFile(current);
  return createSecretBox(key, existsSync(previous) ? readKeyFile(previous) : undefined);
}

/** Returns true while the data directory has the previous key, too. */
export function hasPreviousKey(data: string): boolean {
  return existsSync(pathsOf(data).previous);
}

/**
 * Puts a new key in the place of `secrets.key`, which becomes `secrets.key.previous`. The existing files can open all
 * secrets at every moment, also when the process or the power fails. Returns false when an earlier call has made the
 * new key already. The server must be stopped.
 */
export function renewKey(data: string): boolean {
  const { current, previous, next } = pathsOf(data);
  const key = readKeyFile(current);
  // An earlier call may have ended between the copy and the new key.
  if (existsSync(previous) && !key.equals(readFileSync(previous))) return false;
  writeOnce(previous, key);
  rmSync(next, { force: true });
  writeOnce(next, randomBytes(keyBytes));
  renameSync(next, current);
  syncDirectoriesNow(data, undefined);
  return true;
}

/** Removes the previous key. Secrets that are sealed with it can never be opened again. */
export function removePreviousKey(data: string): void {
  rmSync(pathsOf(data).previous, { force: true });
  syncDirectoriesNow(data, undefined);
}
