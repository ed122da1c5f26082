import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readEntry } from './repodata-entry.ts';

interface Kept {
  readonly directory: string;
  readonly bytes: number;
  readonly usedAt: number;
  readonly paths: readonly string[];
}

/** Makes the directory, and removes what a killed server left half made. */
export async function removeLeftovers(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const name of await readdir(directory)) {
    const own = join(directory, name);
    const entry = await readEntry(own);
    if (entry === undefined) {
      await rm(own, { recursive: true, force: true });
      continue;
    }
    for (const file of await readdir(own)) {
      if (file !== 'entry.json' && file !== entry.pack) await rm(join(own, file), { force: true });
    }
  }
}

/**
 * Removes the least recently used repository data until the rest has at most `maxBytes`; never what is in use. Returns the
 * directories that it removed.
 *
 * @param isInUse asked for directories and for the files in them
 */
export async function keepWithin(
  directory: string,
  maxBytes: number,
  isInUse: (path: string) => boolean,
): Promise<readonly string[]> {
  const removed: string[] = [];
  const kept = await Promise.all(
    (await readdir(directory)).map(name => measure(join(directory, name))),
  );
  let total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const one of kept.toSorted((a, b) => a.usedAt - b.usedAt)) {
    if (total <= maxBytes) break;
    if ([one.directory, ...one.paths].some(isInUse)) continue;
    removed.push(one.directory);
    await rm(one.directory, { recursive: true, force: true });
    total -= one.bytes;
  }
  return removed;
}

async function measure(directory: string): Promise<Kept> {
  const paths = (await readdir(directory)).map(name => join(directory, name));
  const sizes = await Promise.all(
    paths.map(path =>
      stat(path).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  const { mtimeMs } = await stat(directory);
  return { directory, paths, usedAt: mtimeMs, bytes: sizes.reduce((sum, size) => sum + size, 0) };
}
