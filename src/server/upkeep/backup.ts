import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { workOnEach } from '../../foundation/semaphore.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { ContentStore, KeptContent } from '../../storage/content/index.ts';
import { lockData, syncDirectory } from '../../storage/directory/index.ts';
import { syncFile } from '../../storage/rows/file/index.ts';
import type { Rows } from '../../storage/rows/index.ts';
import { examined, isUnreadable } from './verify.ts';

/** The parts of a data directory that a copy needs. */
export interface CopiedState {
  readonly directory: string;
  readonly content: ContentStore;
}

export interface BackupSource extends CopiedState {
  readonly rows: Pick<Rows, 'upkeep' | 'hosted' | 'cachedBlobs'>;
}

export interface CopyReport {
  /** Number of contents that were copied, and their bytes. */
  readonly copied: number;
  readonly copiedBytes: number;
  /** Number of contents that the target had already. */
  readonly kept: number;
  /** Contents that could not be copied, because the source is damaged. */
  readonly damaged: readonly Digest[];
}

export interface BackupOptions {
  readonly withSecretsKey: boolean;
  /** Reads the existing content of the target again, and replaces damaged content. */
  readonly checksTarget?: boolean;
}

/** The last file of a backup: without it the backup is incomplete. */
export const completeMark = 'backup.json';

// Small files beside the rows that a server cannot create again.
const smallFiles = ['registry-token.key', 'content/id'];
// The previous key exists until nothing needs it.
const secretsKeys = ['secrets.key', 'secrets.key.previous'];
/**
 * Copies a data directory, which may be in use, into another directory: the rows as of one moment, and all content
 * that they refer to. Content that an earlier backup copied is not read again. Copies of upstream blobs are left out:
 * a server fetches them again. The last file written is {@link completeMark}.
 *
 * @throws {@link Fault} when another backup writes into the target, or the rows cannot be copied in time
 */
export async function backup(
  source: BackupSource,
  target: CopiedState,
  options: BackupOptions,
): Promise<CopyReport> {
  await mkdir(target.directory, { recursive: true, mode: 0o700 });
  using _lock = await lockData(target.directory, () => {}, {
    patienceMs: 0,
    message: `Another backup writes into ${target.directory}: run the command again when it has finished`,
  });
  // Leftovers of an interrupted backup.
  await target.content.removeLeftovers(Number.POSITIVE_INFINITY);
  await rm(join(target.directory, completeMark), { force: true });
  // Copies most of the content first, so that little changes between the rows and the content that they refer to.
  const isWanted = (digest: Digest) => isKept(source, digest);
  const { checksTarget = false } = options;
  const first = await copyContent(source.content, target.content, { isWanted, checksTarget });
  await source.rows.upkeep.copyTo(target.directory);
  const second = await copyContent(source.content, target.content, { isWanted });
  await copyFiles(source.directory, target.directory, options.withSecretsKey);
  const [key = '', previous = ''] = secretsKeys;
  const isRemoved =
    existsSync(join(source.directory, key)) && !existsSync(join(source.directory, previous));
  // A key of an earlier backup: nothing in the rows of this one needs it.
  if (isRemoved) await rm(join(target.directory, previous), { force: true });
  const report = {
    copied: first.copied + second.copied,
    copiedBytes: first.copiedBytes + second.copiedBytes,
    kept: second.kept - first.copied,
    damaged: [...new Set([...first.damaged, ...second.damaged])],
  };
  await writeDurably(
    join(target.directory, completeMark),
    JSON.stringify({ createdAt: new Date().toISOString(), ...report }),
  );
  return report;
}

/** Returns true for content that no other registry has. */
async function isKept(
  { rows: { hosted, cachedBlobs } }: BackupSource,
  digest: Digest,
): Promise<boolean> {
  return (await hosted.isHeld(digest)) || !(await cachedBlobs.isMereCopy(digest));
}

interface CopyOptions extends Pick<BackupOptions, 'checksTarget'> {
  /** Contents that are copied at a time. Default: 1. */
  readonly atOnce?: number;
  /** Returns false for content to leave out. */
  readonly isWanted?: (digest: Digest) => Promise<boolean>;
}

/** Copies content that the target lacks. It is hashed on the way, so no damaged content gets there. */
export async function copyContent(
  content: ContentStore,
  target: ContentStore,
  { isWanted = async () => true, checksTarget = false, atOnce = 1 }: CopyOptions = {},
): Promise<CopyReport> {
  let [copied, copiedBytes, kept] = [0, 0, 0];
  const damaged: Digest[] = [];
  const copyMissing = async ({ digest, size }: KeptContent): Promise<void> => {
    if (!(await isWanted(digest))) return;
    const isThere = (await target.size(digest)) === size;
    if (isThere && !(checksTarget && (await examined(target, digest)) === 'damaged')) {
      kept += 1;
      return;
    }
    const isCopied = await copyOne(content, target, digest, size);
    if (isCopied === undefined) return;
    if (isCopied) {
      copied += 1;
      copiedBytes += size;
    } else {
      damaged.push(digest);
    }
  };
  await workOnEach(content.list(), atOnce, copyMissing);
  return { copied, copiedBytes, kept, damaged };
}

/** Returns false when the content is damaged; undefined when it was removed meanwhile. */
async function copyOne(
  content: ContentStore,
  target: ContentStore,
  digest: Digest,
  size: number,
): Promise<boolean | undefined> {
  let isReading = false;
  const ingest = await target.ingest(splitDigest(digest).algorithm);
  try {
    const parts = content.open(digest, 0, size - 1);
    const read = async () => {
      isReading = true;
      const chunk = await parts.read();
      isReading = false;
      return chunk;
    };
    for (let chunk = await read(); chunk !== null; chunk = await read()) {
      await ingest.write(chunk.bytes).finally(chunk.release);
    }
    if (ingest.digest() !== digest) return false;
    await ingest.commit();
    return true;
  } catch (error) {
    if ((error as Error).name === 'DamagedContent') return false;
    // The disk has damaged a file that it cannot read.
    if (isReading && isUnreadable(error)) return false;
    if ((await content.size(digest)) === undefined) return undefined;
    throw error;
  } finally {
    await ingest.abort();
  }
}

/** Copies the files beside rows and content in a data directory. */
export async function copyFiles(from: string, to: string, withSecretsKey: boolean): Promise<void> {
  const names = withSecretsKey ? [...smallFiles, ...secretsKeys] : smallFiles;
  for (const name of names) {
    if (existsSync(join(from, name))) await copyDurably(join(from, name), join(to, name));
  }
  const logs = 'logs/builds';
  await mkdir(join(to, logs), { recursive: true, mode: 0o700 });
  const found = existsSync(join(from, logs)) ? await readdir(join(from, logs)) : [];
  for (const name of found) await copyNewer(join(from, logs, name), join(to, logs, name));
}

/** A log that has disappeared meanwhile was deleted with its build. */
async function copyNewer(from: string, to: string): Promise<void> {
  const [old, fresh] = await Promise.all([to, from].map(path => stat(path).catch(() => undefined)));
  if (!fresh || (old && old.size === fresh.size && old.mtimeMs >= fresh.mtimeMs)) return;
  await copyFile(from, to).catch(error => {
    if (error.code !== 'ENOENT') throw error;
  });
}

export async function copyDurably(from: string, to: string): Promise<void> {
  await copyFile(from, to);
  await chmod(to, 0o600);
  await syncFile(to);
}

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'w', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await syncDirectory(join(path, '..'));
}
