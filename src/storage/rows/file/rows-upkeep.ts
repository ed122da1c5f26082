import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../../../foundation/fault.ts';
import { makePrivateFile, syncDirectory } from '../../directory/index.ts';
import type { Database } from '../database.ts';
import { inSmallSteps } from '../small-steps.ts';

/** Maintenance of the database itself. */
export interface RowsUpkeep {
  freeSpace(): Promise<FreeSpace>;
  /** Returns free space to the disk, a little at a time. */
  returnFreeSpace(signal?: AbortSignal): Promise<void>;
  /** Rewrites the database without its free space. The server must be stopped. */
  compact(): Promise<void>;
  /** Copies the rows as of one moment into a directory, see {@link copyRows}. */
  copyTo(directory: string): Promise<void>;
}

export function createRowsUpkeep(database: Database): RowsUpkeep {
  return {
    freeSpace: async () => freeSpace(database),
    returnFreeSpace: signal => returnFreePages(database, signal),
    async compact() {
      database.exec('VACUUM');
    },
    copyTo: directory => copyRows(database, directory),
  };
}

// A smaller number of pages is used again soon.
const keptPages = 4096;
// Moving a page costs more than a row: SQLite also writes the pages that refer to it.
const mostPages = 256;

/** The unused space in a database file. */
interface FreeSpace {
  readonly freeBytes: number;
  readonly fileBytes: number;
  /** False for a file of an earlier version, which returns space only when it is rewritten as a whole. */
  readonly isReturnable: boolean;
}

const incrementalVacuum = 2;

export function freeSpace(database: Database): FreeSpace {
  const number = (name: string) => Number(database.pragma(name, { simple: true }));
  const pageBytes = number('page_size');
  return {
    freeBytes: number('freelist_count') * pageBytes,
    fileBytes: number('page_count') * pageBytes,
    isReturnable: number('auto_vacuum') === incrementalVacuum,
  };
}

/** Returns the free pages of the file to the disk, a few at a time, except for some that are used again soon. */
export async function returnFreePages(database: Database, signal?: AbortSignal): Promise<void> {
  if (!freeSpace(database).isReturnable) return;
  const free = database.sql('PRAGMA freelist_count').pluck<number>();
  const step = function* (rows: number) {
    const spare = Number(yield* free.get()) - keptPages;
    if (spare <= 0) return 0;
    const pages = Math.min(spare, rows, mostPages);
    database.pragma(`incremental_vacuum(${pages})`);
    return pages < spare ? rows : 0;
  };
  await inSmallSteps(database, step, signal);
}

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
