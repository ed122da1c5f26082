import { closeSync, fsyncSync, openSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';

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
    directories.runFresh(() => queue.run(() => syncDirectory(path)), { key: path });

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

/** Brings the names in a directory to the disk. Only then is a new or renamed file safe. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * Does the same synchronously, for a directory and the new directories above it.
 * @param made the topmost directory that is new, as `mkdirSync` returns it
 */
export function syncDirectoriesNow(path: string, made: string | undefined): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
  if (made !== undefined && path.startsWith(made)) syncDirectoriesNow(dirname(path), made);
}
