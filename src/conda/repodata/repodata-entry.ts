import { randomUUID } from 'node:crypto';
import { access, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { syncDirectory } from '../../storage/directory/index.ts';

/** Kept repository data of one subdirectory of a channel. */
export interface RepodataEntry {
  /** URL of the subdirectory. */
  readonly url: string;
  /** Name of the prepared file, next to this one. */
  readonly pack: string;
  /** The file of the channel that it was made from. */
  readonly source: string;
  /** Upstream URL of the shards that the prepared file only lists. */
  readonly shards?: string | undefined;
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
  /** When the channel last confirmed it, ms since 1970. */
  readonly checkedAt: number;
}

const entryName = 'entry.json';

/** Returns what is kept in a directory; undefined for nothing whole. */
export async function readEntry(directory: string): Promise<RepodataEntry | undefined> {
  try {
    const entry = JSON.parse(await readFile(join(directory, entryName), 'utf8')) as RepodataEntry;
    if (!/^[0-9a-f-]+\.pack$/.test(entry.pack)) return undefined;
    await access(join(directory, entry.pack));
    return entry;
  } catch {
    return undefined;
  }
}

/** Puts an entry in the place of the one before. The files that it names are on the disk already. */
export async function writeEntry(directory: string, entry: RepodataEntry): Promise<void> {
  const draft = join(directory, `${randomUUID()}.draft`);
  try {
    const file = await open(draft, 'wx', 0o600);
    try {
      await file.writeFile(JSON.stringify(entry));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, join(directory, entryName));
    await syncDirectory(directory);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
