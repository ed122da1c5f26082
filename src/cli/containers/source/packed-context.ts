import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Found } from '../../../buildkit/index.ts';
import { CommandError } from '../../command/command.ts';
import { contextFiles } from './context-files.ts';
import { largestIn } from './largest.ts';
import { type PackedLayer, pack } from './pack.ts';

/** A build context as a request carries it. */
export interface PackedContext {
  readonly layer: { readonly location: string; readonly isFiltered?: true } & Partial<PackedLayer>;
  /** What to do when a server refuses it as too large. */
  readonly advice: string | undefined;
}

// Packing more takes long, and no server accepts it in a request.
const mostBytes = 256 * 1024 * 1024;
const shownShares = 5;

/**
 * Packs the files of a directory that its .dockerignore does not exclude; the same files give the same bytes. The URL of
 * a tar.gz file stays a URL. Throws {@link CommandError}.
 */
export async function packContext(
  location: string,
  dockerfile: string | undefined,
): Promise<PackedContext> {
  if (/^https?:\/\//i.test(location)) {
    return { layer: { location }, advice: undefined };
  }
  const status = await stat(location).catch(() => undefined);
  if (!status?.isDirectory()) {
    throw new CommandError(`${location} is neither a directory nor the URL of a tar.gz file`, 2);
  }
  const { files, isFiltered } = await contextFiles(location, dockerfile);
  const hasIgnoreFile = files.some(({ path }) => path === '.dockerignore');
  const bytes = files.reduce((sum, { entry }) => sum + entry.size, 0);
  const advice = adviceFor(location, files, bytes);
  if (bytes > mostBytes) {
    throw new CommandError(`The build context is too large for a request. ${advice}`);
  }
  const layer = await pack(async add => {
    for (const { path, entry } of files) {
      const { kind, mode, target } = entry;
      if (kind === 'directory') add({ name: `${path}/`, type: kind, mode });
      else if (kind === 'symlink') add({ name: path, type: kind, mode, linkname: target ?? '' });
      else add({ name: path, type: kind, mode }, await readFile(join(location, path)));
    }
  });
  // The mark matters only where the server would apply a .dockerignore. Elsewhere it would change the key for nothing.
  const marked = isFiltered && hasIgnoreFile ? { ...layer, isFiltered: true as const } : layer;
  return { layer: marked, advice: `${advice} The packed context has ${sizeText(layer.gzipSize)}.` };
}

function adviceFor(location: string, files: readonly Found[], bytes: number): string {
  const count = files.filter(({ entry }) => entry.kind === 'file').length;
  const largest = largestIn(files, shownShares).map(
    share => `  ${sizeText(share.bytes).padStart(9)}  ${share.path}`,
  );
  return [
    `${location} has ${sizeText(bytes)} in ${count} files. The largest entries:`,
    ...largest,
    'Exclude files that the build does not need in .dockerignore, or put a tar.gz file of the directory on a web server and give its URL instead of the directory.',
  ].join('\n');
}

function sizeText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = bytes < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bytes) / 3));
  return power === 0 ? `${bytes} B` : `${(bytes / 1000 ** power).toFixed(1)} ${units[power]}`;
}
