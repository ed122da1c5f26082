import type { Database } from '../database.ts';
import { copyRows } from './copy-rows.ts';
import { type FreeSpace, freeSpace, returnFreePages } from './free-pages.ts';

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
