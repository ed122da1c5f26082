import { randomUUID } from 'node:crypto';
import { linkSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncDirectoriesNow } from './sync-directory.ts';

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
