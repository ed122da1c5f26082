import type { FileHandle } from 'node:fs/promises';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { syncDirectory } from './sync-directory.ts';

/** Brings files and the names in directories to the disk. */
export interface DiskSync {
  /** Resolves when the bytes of the file are on the disk. */
  file(file: FileHandle): Promise<void>;
  /** Resolves when the names in the directory are on the disk; simultaneous calls for one directory share the work. */
  directory(path: string): Promise<void>;
  /** Resolves when the earlier calls of `directory` have resolved; rejects when one of them has failed. */
  settle(): Promise<void>;
}

// Node reads and writes files on four threads: two stay free for readers while a slow disk syncs.
const mostAtOnce = 2;

export function createDiskSync(): DiskSync {
  const queue = new Semaphore({ limit: mostAtOnce });

  const directories = new SingleFlight<void>();
  const pending = new Set<Promise<void>>();

  const directory = (path: string): Promise<void> =>
    directories.runAnew(() => queue.run(() => syncDirectory(path)), { key: path });

  return {
    file: file => queue.run(() => file.datasync()),
    directory(path) {
      const synced = directory(path).finally(() => pending.delete(synced));
      pending.add(synced);
      return synced;
    },
    async settle() {
      if (pending.size > 0) await Promise.all(pending);
    },
  };
}
