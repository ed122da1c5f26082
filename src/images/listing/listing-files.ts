import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { DiskSpace } from '../../storage/directory/index.ts';

/** Files of listings, by name, in their own directory. They can be made again at any time. */
export interface ListingFiles {
  /** Bytes that the files about one image may take together: others keep the rest. */
  readonly mostOfImage: number;
  /** Returns the path of a file that is here and counts it as used; undefined if there is none. */
  use(name: string): Promise<string | undefined>;
  /** Returns the content of a small file. */
  read(name: string): Promise<Buffer | undefined>;
  /** Keeps a file. It becomes visible only when it is complete. Throws a `Fault` (507) when the disk is full. */
  write(name: string, bytes: Uint8Array): Promise<void>;
  remove(name: string): Promise<void>;
  /** Removes the least recently used files above the limit, and those that nobody has used for long. */
  tidy(signal?: AbortSignal): Promise<void>;
}

export interface ListingFilesOptions {
  readonly directory: string;
  readonly space: Pick<DiskSpace, 'take'>;
  readonly maxBytes: number;
  readonly keepMs: number;
}

const unfinished = '.new';
// A clock that was wrong leaves times that nothing would ever reach.
const futureMs = 3_600_000;

/** Opens the directory. Removes what a killed server left half made. */
export async function openListingFiles(options: ListingFilesOptions): Promise<ListingFiles> {
  const { directory, space, maxBytes, keepMs } = options;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const name of await readdir(directory)) {
    if (name.endsWith(unfinished)) await rm(join(directory, name), { force: true });
  }
  const running = new SingleFlight<void>();
  /** Bytes that were written since the last look at the directory. */
  let written = 0;
  let writes = 0;

  const tidyNow = async (signal: AbortSignal | undefined): Promise<void> => {
    written = 0;
    const files = [];
    const now = Date.now();
    for (const name of await readdir(directory)) {
      signal?.throwIfAborted();
      const path = join(directory, name);
      const about = await stat(path).catch(() => undefined);
      if (!about || name.endsWith(unfinished)) continue;
      const isFuture = about.mtimeMs > now + futureMs;
      files.push({ path, size: about.size, usedAt: isFuture ? 0 : about.mtimeMs });
    }
    let total = files.reduce((sum, { size }) => sum + size, 0);
    for (const { path, size, usedAt } of files.sort((a, b) => a.usedAt - b.usedAt)) {
      if (total <= maxBytes && usedAt > now - keepMs) break;
      await rm(path, { force: true });
      total -= size;
    }
  };
  const tidy = (signal?: AbortSignal): Promise<void> => running.run(() => tidyNow(signal));

  const use = async (name: string): Promise<string | undefined> => {
    const path = join(directory, name);
    const now = new Date();
    try {
      await utimes(path, now, now);
    } catch (error) {
      // A disk that cannot be written can still be read.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    }
    return path;
  };

  return {
    mostOfImage: Math.floor(maxBytes / 2),
    tidy,
    use,

    async read(name) {
      const path = await use(name);
      return path === undefined ? undefined : readFile(path).catch(() => undefined);
    },

    async write(name, bytes) {
      space.take(bytes.length);
      writes += 1;
      const path = join(directory, name);
      const own = `${path}.${writes}${unfinished}`;
      try {
        await writeFile(own, bytes, { mode: 0o600, flag: 'wx' });
        await rename(own, path);
      } catch (error) {
        await rm(own, { force: true });
        throw error;
      }
      written += bytes.length;
      // The regular work would come too late for many large ones.
      if (written > maxBytes / 8) await tidy();
    },

    async remove(name) {
      await rm(join(directory, name), { force: true });
    },
  };
}
