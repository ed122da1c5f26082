import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** What files take on the disk. */
export interface FileBytes {
  readonly files: number;
  readonly bytes: number;
  /** False when there are more files than were counted. */
  readonly isWhole: boolean;
}

const filesBetweenRests = 256;
const restMs = 5;
/** More files than a server has, except those of a builder that unpacks images into folders. */
const mostFiles = 500_000;

/** Returns what the files below some paths take on the disk, a few at a time. What cannot be read counts as nothing. */
export async function bytesBelow(
  paths: readonly string[],
  signal?: AbortSignal,
  most = mostFiles,
): Promise<FileBytes> {
  let files = 0;
  let bytes = 0;
  const waiting = [...paths];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    signal?.throwIfAborted();
    if (files >= most) return { files, bytes, isWhole: false };
    const found = await lstat(path).catch(() => undefined);
    if (!found) continue;
    bytes += found.blocks * 512;
    if (!found.isDirectory()) {
      files += 1;
      if (files % filesBetweenRests === 0) {
        await sleep(restMs, undefined, signal ? { signal } : {});
      }
      continue;
    }
    // The names of one folder are in memory: a folder of Sluice has at most some ten thousand.
    const entries = await opendir(path).catch(() => undefined);
    if (!entries) continue;
    try {
      for await (const { name } of entries) waiting.push(join(path, name));
    } catch {
      // It was removed meanwhile.
    }
  }
  return { files, bytes, isWhole: true };
}
