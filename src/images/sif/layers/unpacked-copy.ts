import { open, rm } from 'node:fs/promises';
import type { ScratchSpace } from '../scratch-space.ts';

/** Bytes that are written at once. */
const batchBytes = 1024 * 1024;

/** A layer's tar file on disk, which is read twice and so needs to be unpacked only once. */
export interface UnpackedCopy {
  readonly path: string;
  /** Takes the next bytes; resolves when it wants more. */
  write(bytes: Buffer): Promise<void>;
  /** The size of the file, undefined where there was no room for all of it. */
  finish(): Promise<number | undefined>;
  /** Removes what was written. */
  abort(): Promise<void>;
}

/**
 * Begins a copy. It is given up where the disk or the conversion has no room for it.
 */
export async function beginUnpackedCopy(path: string, space: ScratchSpace): Promise<UnpackedCopy> {
  const file = await open(path, 'wx');
  let parts: Buffer[] = [];
  let waiting = 0;
  let size = 0;
  let isGivenUp = false;
  let writing: Promise<unknown> = Promise.resolve();

  const giveUp = async () => {
    isGivenUp = true;
    await writing.catch(() => {});
    await file.close();
    await rm(path, { force: true });
    space.giveCopy(size);
  };
  const flush = async () => {
    try {
      await writing;
      // The write runs on another thread while the next bytes are unpacked.
      writing = file.writev(parts);
      writing.catch(() => {});
    } catch {
      await giveUp();
    }
    parts = [];
    waiting = 0;
  };

  return {
    path,

    async write(bytes) {
      if (isGivenUp) return;
      if (!space.takeCopy(bytes.length)) return giveUp();
      size += bytes.length;
      parts.push(bytes);
      waiting += bytes.length;
      if (waiting >= batchBytes) await flush();
    },

    async finish() {
      if (!isGivenUp) await flush();
      // What is written last may fail as well.
      if (!isGivenUp) await writing.catch(giveUp);
      if (isGivenUp) return undefined;
      await file.close();
      return size;
    },

    async abort() {
      if (!isGivenUp) await giveUp();
    },
  };
}
