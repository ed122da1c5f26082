import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

const keyBytes = 32;
const writingMs = 1000;
const pauseMs = 10;

/** The secret in a file, readable for its owner alone; a new one is made where there is no file. */
export function readKeyFile(path: string): Buffer {
  try {
    writeFileSync(path, randomBytes(keyBytes), { mode: 0o600, flag: 'wx', flush: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  // The server and a command may begin at once: the other one may be about to write it.
  for (let waited = 0; waited <= writingMs; waited += pauseMs) {
    const key = readFileSync(path);
    if (key.length >= keyBytes) return key;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs);
  }
  throw new Error(`${path} holds no key: restore it from a backup, or remove it for a new one`);
}
