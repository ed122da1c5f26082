import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../../foundation/fault.ts';
import { workOnEach } from '../../foundation/semaphore.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { ContentStore, KeptContent } from '../../storage/content/index.ts';
import { lockData, syncDirectory } from '../../storage/directory/index.ts';
import type { OpenedContent } from '../../storage/index.ts';
import { removeDatabase, syncFile } from '../../storage/rows/file/index.ts';
import { type HostedContent, openRows, type Rows } from '../../storage/rows/index.ts';
import { unfinishedRestore } from '../../storage/whole-data.ts';
import { examined, isUnreadable, missingContent } from './verify.ts';

/** The parts of a data directory that a copy needs. */
interface CopiedState {
  readonly directory: string;
  readonly content: ContentStore;
}

interface BackupSource extends CopiedState {
  readonly rows: Pick<Rows, 'upkeep' | 'hosted' | 'cachedBlobs'>;
}

interface CopyReport {
  /** Number of contents that were copied, and their bytes. */
  readonly copied: number;
  readonly copiedBytes: number;
  /** Number of contents that the target had already. */
  readonly kept: number;
  /** Contents that could not be copied, because the source is damaged. */
  readonly damaged: readonly Digest[];
}

interface BackupOptions {
  readonly withSecretsKey: boolean;
  /** Reads the existing content of the target again, and replaces damaged content. */
  readonly checksTarget?: boolean;
}

/** The last file of a backup: without it the backup is incomplete. */
const completeMark = 'backup.json';

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
async function copyFiles(from: string, to: string, withSecretsKey: boolean): Promise<void> {
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

async function copyDurably(from: string, to: string): Promise<void> {
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

interface RestoreReport extends CopyReport {
  /** Content of hosted repositories that the backup lacks. */
  readonly missing: readonly HostedContent[];
}

/**
 * Creates a data directory from a backup. The database is put in place last, so that no server starts with incomplete
 * data. The same call resumes an interrupted restore.
 *
 * @param openContent opens the content of a data directory or backup
 * @throws {@link Fault} when the backup is incomplete, or the directory is not empty
 */
export async function restore(
  from: string,
  to: string,
  openContent: (directory: string, isReadOnly: boolean) => Promise<ContentStore>,
): Promise<RestoreReport> {
  await requireComplete(from);
  await requireRoom(to);
  using _lock = await lockData(to, () => {}, {
    patienceMs: 0,
    message: `Another restore writes into ${to}: wait until it has finished`,
  });
  const content = await openContent(to, false);
  // Leftovers of an interrupted restore.
  await content.removeLeftovers(Number.POSITIVE_INFINITY);
  const report = await copyContent(await openContent(from, true), content);
  await copyFiles(from, to, true);
  const path = join(to, 'sluice.db');
  const unfinished = `${path}.new`;
  await removeDatabase(unfinished);
  await copyDurably(join(from, 'sluice.db'), unfinished);
  const missing = await missingIn(unfinished, content);
  await rename(unfinished, path);
  await rm(join(to, unfinishedRestore), { recursive: true });
  await syncDirectory(to);
  return { ...report, missing };
}

/** Compares the rows with the content: a backup may have lost content to rot, which nobody notices before a pull. */
async function missingIn(path: string, content: ContentStore): Promise<HostedContent[]> {
  const rows = openRows(path);
  try {
    return await missingContent(content, rows.hosted);
  } finally {
    await rows.end();
  }
}

/** Throws unless the directory contains a complete backup. */
async function requireComplete(directory: string): Promise<void> {
  if (existsSync(join(directory, completeMark)) && existsSync(join(directory, 'sluice.db'))) return;
  throw new Fault(
    'internal',
    `${directory} is not a complete backup: name the directory that 'sluice backup' has written, or run 'sluice backup' again until it succeeds`,
    { phase: 'store' },
  );
}

/** Marks an empty directory as being restored; throws when it contains anything else. */
async function requireRoom(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const mark = join(directory, unfinishedRestore);
  if (existsSync(mark)) return;
  const found = await readdir(directory);
  if (found.length > 0) {
    throw new Fault(
      'internal',
      `${directory} is not empty: restore into a new directory, or move this one away first`,
      { phase: 'store' },
    );
  }
  await mkdir(mark);
}

interface MovedContent extends CopyReport {
  /** Where the former content is kept. */
  readonly former: string;
}

// The responses of a store far away take longer than the bytes of a usual document.
const atOnce = 8;

/**
 * Moves all content of a site to another place, whose server does not run. An interrupted move continues when it is
 * called again. The new place belongs to the rows once all content is there, and the former one no longer does.
 *
 * @throws {@link Fault} when the new place belongs to other rows
 */
export async function moveContent(
  from: OpenedContent,
  to: OpenedContent,
  { identity }: Pick<Rows, 'identity'>,
): Promise<MovedContent> {
  const id = await identity.id();
  if (id === undefined) throw isNew();
  if ((await from.place.readId()) !== id) throw isNotOwn(from);
  if (((await to.place.readId()) ?? id) !== id) throw belongsToOther(to);
  const report = await copyContent(from.content, to.content, { atOnce });
  await to.content.settle();
  await to.place.writeId(id);
  return { ...report, former: await from.place.retire() };
}

function isNew(): Fault {
  return new Fault('bad-request', 'This site has no content: no server has used it yet', {
    phase: 'store',
  });
}

function isNotOwn({ place: { name } }: OpenedContent): Fault {
  return new Fault(
    'bad-request',
    `${name} is not the content of this site. Nothing was moved: check SLUICE_CONTENT, and whether an earlier run has moved it`,
    { phase: 'store' },
  );
}

function belongsToOther({ place: { name } }: OpenedContent): Fault {
  return new Fault(
    'bad-request',
    `${name} belongs to another database. Nothing was moved: name another place`,
    { phase: 'store' },
  );
}
