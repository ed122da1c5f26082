import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import { sharedFlush } from '../../directory/shared-flush.ts';

const sync = promisify(fdatasync);

/** Brings a write-ahead log to the disk, off the main thread. */
export interface LogFlush {
  /** Resolves when everything that was in the file before the call is on the disk. */
  flush(): Promise<void>;
  close(): void;
}

/**
 * @param path the `-wal` file of an open database. SQLite takes its locks on other files, so that closing
 *   this one releases none.
 */
export function createLogFlush(path: string): LogFlush {
  let file: number | undefined;
  return {
    flush: sharedFlush(async () => {
      file ??= openSync(path, 'r');
      await sync(file);
    }),
    close() {
      if (file !== undefined) closeSync(file);
      file = undefined;
    },
  };
}
