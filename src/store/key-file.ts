import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

const keyBytes = 32;

/** The secret in a file, readable for its owner alone; a new one is made where there is no file. */
export function readKeyFile(path: string): Buffer {
  try {
    writeFileSync(path, randomBytes(keyBytes), { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const key = readFileSync(path);
  if (key.length < keyBytes) {
    throw new Error(`${path} holds no key: restore it from a backup, or remove it for a new one`);
  }
  return key;
}
