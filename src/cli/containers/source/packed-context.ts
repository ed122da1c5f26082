import { readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Found } from '../../../buildkit/files/index.ts';
import { type ContextEntry, tarEntryOf } from '../../../contexts/context-entry.ts';
import { CommandError } from '../../command/command.ts';
import { contextFiles } from './context-files.ts';
import { largestIn } from './largest.ts';
import { type PackedLayer, pack } from './pack.ts';

/** A build context in a request: a layer, or the name of an uploaded context. */
export interface SentContext extends Partial<PackedLayer> {
  readonly location: string;
  readonly isFiltered?: true;
}

/** The directory of a build context, without the files that its .dockerignore excludes. */
export interface ContextDirectory {
  readonly path: string;
  /** Files in the order in which they are packed. */
  readonly entries: readonly ContextEntry[];
  /** Sum of the sizes of its files. */
  readonly bytes: number;
  /** True when its .dockerignore is treated like any other file. */
  readonly isFiltered: boolean;
}

// Stays below the default limit of a server for a context inside a request, 10 MiB, even when it does not compress.
const mostPackedBytes = 8 * 1024 * 1024;
const shownShares = 5;

/** Reads which files of a directory belong to its build context. Throws {@link CommandError}. */
export async function contextDirectory(
  path: string,
  dockerfile: string | undefined,
): Promise<ContextDirectory> {
  const status = await stat(path).catch(() => undefined);
  if (!status?.isDirectory()) {
    throw new CommandError(`${path} is neither a directory nor the URL of a tar.gz file`, 2);
  }
  const { files, isFiltered } = await contextFiles(path, dockerfile);
  const entries = linkedEntries(files);
  const hasIgnoreFile = entries.some(entry => entry.path === '.dockerignore');
  const bytes = entries.reduce((sum, { size }) => sum + size, 0);
  // The mark matters only when the server would apply a .dockerignore. Otherwise it would change the key without a
  // reason.
  return { path, entries, bytes, isFiltered: isFiltered && hasIgnoreFile };
}

/** Returns the entries of files. A further name of a file is a link to its first name. */
function linkedEntries(files: readonly Found[]): ContextEntry[] {
  const firstNames = new Map<string, string>();
  return files.map(({ path, entry }) => {
    const { inode } = entry;
    const target = inode === undefined ? undefined : firstNames.get(inode);
    if (target !== undefined) return { path, kind: 'link', mode: entry.mode, size: 0, target };
    if (inode !== undefined) firstNames.set(inode, path);
    return { ...entry, path };
  });
}

/** Returns a small context packed for a request, with the same bytes for the same files; undefined for a large one. */
export async function packContext({
  path,
  entries,
  bytes,
  isFiltered,
}: ContextDirectory): Promise<SentContext | undefined> {
  if (bytes > mostPackedBytes) return undefined;
  const layer = await pack(async add => {
    for (const entry of entries) {
      const isFile = entry.kind === 'file';
      await add(tarEntryOf(entry), isFile ? readFileSync(join(path, entry.path)) : undefined);
    }
  });
  return isFiltered ? { ...layer, isFiltered } : layer;
}

/** Returns advice for a context that a server rejects as too large. */
export function contextAdvice({ path, entries, bytes }: ContextDirectory): string {
  const count = entries.filter(({ kind }) => kind === 'file').length;
  const largest = largestIn(entries, shownShares).map(
    share => `  ${sizeText(share.bytes).padStart(9)}  ${share.path}`,
  );
  return [
    `${path} has ${sizeText(bytes)} in ${count} files. The largest entries:`,
    ...largest,
    'Exclude files that the build does not need in .dockerignore.',
  ].join('\n');
}

/** `12.3 MB` */
export function sizeText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = bytes < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bytes) / 3));
  return power === 0 ? `${bytes} B` : `${(bytes / 1000 ** power).toFixed(1)} ${units[power]}`;
}
