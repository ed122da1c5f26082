import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { writeOnce } from './write-once.ts';

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
