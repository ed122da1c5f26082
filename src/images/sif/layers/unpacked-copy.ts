import { open, rm } from 'node:fs/promises';
import type { ScratchSpace } from '../scratch-space.ts';

/** Bytes per write. */
const batchBytes = 1024 * 1024;

/** A copy of a layer's tar file on disk: the layer is read twice but unpacked only once. */
export interface UnpackedCopy {
  readonly path: string;
  /** Takes the next bytes. Resolves when it is ready for more. */
  write(bytes: Buffer): Promise<void>;
  /** Returns the size of the file in bytes, or undefined if there was not enough space for it. */
  finish(): Promise<number | undefined>;
  /** Removes the file. */
  abort(): Promise<void>;
}

/**
 * Starts a copy. Drops it when the disk or the limit of the conversion has no space for it.
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
      // The last write may fail, too.
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
