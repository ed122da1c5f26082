import type { Database } from '../database.ts';
import { inSmallSteps } from '../small-steps.ts';
import { copyRows } from './copy-rows.ts';

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

const incremental = 2;

export function freeSpace(database: Database): FreeSpace {
  const number = (name: string) => Number(database.pragma(name, { simple: true }));
  const pageBytes = number('page_size');
  return {
    freeBytes: number('freelist_count') * pageBytes,
    fileBytes: number('page_count') * pageBytes,
    isReturnable: number('auto_vacuum') === incremental,
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
