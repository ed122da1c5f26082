import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../../../foundation/fault.ts';
import { makePrivateFile, syncDirectory } from '../../directory/index.ts';
import type { Database } from '../database.ts';

// Pages copied between two looks at the clock.
const pagesAtOnce = 2000;
const longestCopyMs = 30 * 60_000;

/**
 * Copies the rows as of one moment into `sluice.db` of a directory, beside a server that writes. Source: SQLite, Online
 * Backup API.
 */
export async function copyRows(
  database: Database,
  directory: string,
  limitMs = longestCopyMs,
): Promise<void> {
  const path = join(directory, 'sluice.db');
  const unfinished = `${path}.new`;
  await removeDatabase(unfinished);
  makePrivateFile(unfinished);
  const end = performance.now() + limitMs;
  const progress = (): number => {
    if (performance.now() > end) throw tooSlow(directory, limitMs);
    return pagesAtOnce;
  };
  // One transaction covers all steps: without it the copy restarts whenever the server has written. The log of the
  // server cannot restart meanwhile, hence the limit.
  database.exec('BEGIN');
  try {
    database.prepare('SELECT 1 FROM data_directory').get();
    await database.backup(unfinished, { progress });
  } catch (error) {
    await removeDatabase(unfinished);
    throw error;
  } finally {
    database.exec('COMMIT');
  }
  await syncFile(unfinished);
  await rename(unfinished, path);
  await syncDirectory(directory);
}

/** Removes a database file and SQLite's files beside it, which SQLite would take for a part of the next one. */
export async function removeDatabase(path: string): Promise<void> {
  for (const end of ['', '-journal', '-wal', '-shm']) await rm(`${path}${end}`, { force: true });
}

function tooSlow(directory: string, limitMs: number): Fault {
  const minutes = Math.round(limitMs / 60_000);
  return new Fault(
    'unavailable',
    `The rows could not be copied to ${directory} within ${minutes} minutes, and the log of the server's database grows meanwhile: write the backup to a faster disk, and copy it from there`,
    { phase: 'store' },
  );
}

export async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
