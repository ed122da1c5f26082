import { mkdir, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { lock } from './lock.ts';

/** A folder of tools that is there as a whole or not at all. */
export interface WantedFolder {
  readonly destination: string;
  readonly isThere: () => boolean;
  /** What is printed before it is made, such as `Compiling Helm 4.3.1`. */
  readonly doing: string;
}

/**
 * Makes a folder of tools. One process at a time does so: others wait, and find it made. Leaves nothing when it fails.
 *
 * @param make receives an empty folder to work in, and returns the one to keep: that one or one below it
 */
export async function makeFolder(
  { destination, isThere, doing }: WantedFolder,
  make: (folder: string) => Promise<string>,
): Promise<void> {
  using _lock = await lock(basename(destination));
  if (isThere()) return;
  console.log(`${doing} to ${destination}`);
  const folder = `${destination}.unfinished`;
  // The leftovers of a killed run: the lock excludes other runs.
  await rm(folder, { recursive: true, force: true });
  try {
    await mkdir(folder, { recursive: true });
    await rename(await make(folder), destination);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
