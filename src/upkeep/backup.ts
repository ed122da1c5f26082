import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContentStore } from '../content/content-store.ts';
import { type Digest, splitDigest } from '../oci/digest.ts';
import type { CachedBlobStore } from '../store/cached-blobs.ts';
import type { Database } from '../store/database.ts';
import type { HostedStore } from '../store/hosted.ts';
import { syncDirectory } from '../sync-directory.ts';

/** What one data directory is made of, as far as a copy needs it. */
export interface CopiedState {
  readonly directory: string;
  readonly content: ContentStore;
}

export interface BackupSource extends CopiedState {
  readonly database: Database;
  readonly hosted: HostedStore;
  readonly cachedBlobs: CachedBlobStore;
}

export interface CopyReport {
  /** Contents that were copied, and their bytes. */
  readonly copied: number;
  readonly copiedBytes: number;
  /** Contents that were there already. */
  readonly kept: number;
  /** Contents that could not be copied, because the source is damaged. */
  readonly damaged: readonly Digest[];
}

/** The file that ends a backup: without it the backup is not complete. */
export const completeMark = 'backup.json';

// Beside the rows: small files that a server cannot make again.
const smallFiles = ['registry-token.key', 'content/id'];
// The previous one is there until nothing needs it.
const secretsKeys = ['secrets.key', 'secrets.key.previous'];
// A copy in steps of so many pages lets the server write in between.
const pagesAtOnce = 200;

/**
 * Copies a data directory, which may be in use, into another directory: rows as they are at one moment, and all content
 * that they refer to. Content that an earlier backup brought there is not read again. Copies of upstream blobs are left
 * out: a server fetches them again. The last file written is {@link completeMark}.
 */
export async function backup(
  source: BackupSource,
  target: CopiedState,
  options: { readonly withSecretsKey: boolean },
): Promise<CopyReport> {
  await mkdir(target.directory, { recursive: true, mode: 0o700 });
  await rm(join(target.directory, completeMark), { force: true });
  // Most of the content first, so that little changes between the rows and what they refer to.
  const first = await copyContent(source.content, target.content, digest => isKept(source, digest));
  await copyRows(source.database, target.directory);
  const second = await copyContent(source.content, target.content, digest =>
    isKept(source, digest),
  );
  await copyFiles(source.directory, target.directory, options.withSecretsKey);
  const [key = '', previous = ''] = secretsKeys;
  const isRemoved =
    existsSync(join(source.directory, key)) && !existsSync(join(source.directory, previous));
  // Of an earlier backup: nothing in the rows of this one needs it.
  if (isRemoved) await rm(join(target.directory, previous), { force: true });
  const report = {
    copied: first.copied + second.copied,
    copiedBytes: first.copiedBytes + second.copiedBytes,
    kept: second.kept - first.copied,
    damaged: [...first.damaged, ...second.damaged],
  };
  await writeDurably(
    join(target.directory, completeMark),
    JSON.stringify({ createdAt: new Date().toISOString(), ...report }),
  );
  return report;
}

/** True for content that no registry elsewhere has. */
function isKept({ hosted, cachedBlobs }: BackupSource, digest: Digest): boolean {
  return hosted.isHeld(digest) || !cachedBlobs.isMereCopy(digest);
}

/**
 * Copies what the target lacks, hashed on its way: nothing damaged gets there.
 * @param isWanted leaves content out
 */
export async function copyContent(
  content: ContentStore,
  target: ContentStore,
  isWanted: (digest: Digest) => boolean = () => true,
): Promise<CopyReport> {
  let [copied, copiedBytes, kept] = [0, 0, 0];
  const damaged: Digest[] = [];
  for await (const { digest, size } of content.list()) {
    if (!isWanted(digest)) continue;
    if ((await target.size(digest)) === size) {
      kept += 1;
      continue;
    }
    const isCopied = await copyOne(content, target, digest, size);
    if (isCopied === undefined) continue;
    if (isCopied) {
      copied += 1;
      copiedBytes += size;
    } else {
      damaged.push(digest);
    }
  }
  return { copied, copiedBytes, kept, damaged };
}

/** False when it is damaged; undefined when it was removed meanwhile. */
async function copyOne(
  content: ContentStore,
  target: ContentStore,
  digest: Digest,
  size: number,
): Promise<boolean | undefined> {
  const ingest = await target.ingest(splitDigest(digest).algorithm);
  try {
    const parts = content.open(digest, 0, size - 1);
    for (let chunk = await parts.read(); chunk !== null; chunk = await parts.read()) {
      await ingest.write(chunk.bytes).finally(chunk.release);
    }
    if (ingest.digest() !== digest) return false;
    await ingest.commit();
    return true;
  } catch (error) {
    if ((error as Error).name === 'DamagedContent') return false;
    if ((await content.size(digest)) === undefined) return undefined;
    throw error;
  } finally {
    await ingest.abort();
  }
}

/** The rows as they are at one moment, in one file. Source: SQLite, Online Backup API. */
async function copyRows(database: Database, directory: string): Promise<void> {
  const path = join(directory, 'sluice.db');
  const unfinished = `${path}.new`;
  await rm(unfinished, { force: true });
  await database.backup(unfinished, { progress: () => pagesAtOnce });
  await chmod(unfinished, 0o600);
  await syncFile(unfinished);
  await rename(unfinished, path);
  await syncDirectory(directory);
}

/** Copies what a data directory has beside rows and content. */
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

/** A log that is gone meanwhile was deleted with its build. */
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

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
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
