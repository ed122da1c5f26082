import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../../foundation/fault.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import { lockData, syncDirectory } from '../../storage/directory/index.ts';
import { removeDatabase } from '../../storage/rows/file/index.ts';
import { type HostedContent, openRows } from '../../storage/rows/index.ts';
import { unfinishedRestore } from '../../storage/whole-data.ts';
import { type CopyReport, completeMark, copyContent, copyDurably, copyFiles } from './backup.ts';
import { missingContent } from './verify.ts';

export interface RestoreReport extends CopyReport {
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
