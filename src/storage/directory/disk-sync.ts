import type { FileHandle } from 'node:fs/promises';
import { RunQueue } from '../../foundation/run-queue.ts';
import { sharedFlush } from './shared-flush.ts';
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
  const queue = new RunQueue(mostAtOnce);

  const directories = new Map<string, { readonly sync: () => Promise<void>; users: number }>();
  const pending = new Set<Promise<void>>();

  const directory = async (path: string): Promise<void> => {
    let shared = directories.get(path);
    if (!shared) {
      shared = { sync: sharedFlush(() => queue.run(() => syncDirectory(path))), users: 0 };
      directories.set(path, shared);
    }
    shared.users += 1;
    try {
      await shared.sync();
    } finally {
      shared.users -= 1;
      if (shared.users === 0) directories.delete(path);
    }
  };

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
