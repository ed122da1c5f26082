import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { lstat, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { createGzip } from 'node:zlib';
import {
  packedHeader,
  tarEnd,
  tarPadding,
  type WrittenEntry,
} from '../../../archives/tar-writer.ts';
import { directoryTree, type Found, walkTree } from '../../../buildkit/files/index.ts';
import { type ContextEntry, tarEntryOf } from '../../../contexts/index.ts';
import { sizeText } from '../../../foundation/text.ts';
import { CommandError } from '../../command/command.ts';

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
    const option = status ? '--environment, --requirements or --file' : '--conda';
    throw new CommandError(
      `${path} is neither a directory nor the URL of a tar.gz file. For a ${status ? 'file that lists packages, or a Dockerfile' : 'package'}, write ${option} ${path}`,
      2,
    );
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
  const layer = await packEntries(async add => {
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

/** A directory, or a file at the top, and its size. */
interface Share {
  readonly path: string;
  readonly bytes: number;
}

// A directory with nearly all bytes of its parent is more informative than the parent.
const nearlyAll = 0.9;

/** Returns the largest directories and files at the top of a tree, largest first; see {@link nearlyAll}. */
function largestIn(entries: readonly ContextEntry[], count: number): Share[] {
  const sizes = new Map<string, number>();
  for (const { path, kind, size } of entries) {
    if (kind !== 'file') continue;
    const parts = path.split('/');
    for (let depth = 1; depth <= parts.length; depth += 1) {
      const name = `${parts.slice(0, depth).join('/')}${depth < parts.length ? '/' : ''}`;
      sizes.set(name, (sizes.get(name) ?? 0) + size);
    }
  }
  const shares = [...sizes].map(([path, bytes]) => ({ path, bytes }));
  // Not Map.groupBy, which Node 20 lacks.
  const below = new Map<string, Share[]>();
  for (const share of shares) {
    const directory = share.path.replace(/[^/]+\/?$/, '');
    below.set(directory, [...(below.get(directory) ?? []), share]);
  }
  const deepest = (share: Share): Share => {
    const child = (below.get(share.path) ?? []).find(
      ({ path, bytes }) => path.endsWith('/') && bytes >= share.bytes * nearlyAll,
    );
    return child ? deepest(child) : share;
  };
  return (below.get('') ?? [])
    .map(deepest)
    .sort((one, other) => other.bytes - one.bytes)
    .slice(0, count);
}

const ignoreFile = '.dockerignore';

/** The files of a build context. */
interface ContextFiles {
  readonly files: readonly Found[];
  /** True when `<Dockerfile>.dockerignore` decided, instead of the `.dockerignore` among the files. */
  readonly isFiltered: boolean;
}

/**
 * Returns the files of a directory in a fixed order, without those that `<Dockerfile>.dockerignore`, or else
 * `.dockerignore`, excludes. Throws a {@link CommandError} for files that cannot be read.
 * Source: Docker, Build context, .dockerignore files.
 */
export async function contextFiles(
  directory: string,
  dockerfile: string | undefined,
): Promise<ContextFiles> {
  const own =
    dockerfile === undefined ? undefined : await readIfThere(`${dockerfile}${ignoreFile}`);
  const excludes = readIgnoreFile(own ?? (await readIfThere(join(directory, ignoreFile))) ?? '');
  const found: Found[] = [];
  try {
    for await (const file of walkTree(directoryTree(directory, { marksSpecial: true }), {
      includes: [],
      follows: [],
      excludes,
    })) {
      if (file.entry.isSpecial) throw specialFile(directory, file.path);
      found.push(file);
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(
      `Cannot read the directory ${directory}: ${(error as Error).message}`,
      2,
    );
  }
  return { files: found, isFiltered: own !== undefined };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new CommandError(`Cannot read ${path}: ${(error as Error).message}`, 2);
  }
}

function specialFile(directory: string, path: string): CommandError {
  const file = join(directory, path);
  const message = `${file} is a pipe or a device, which a build context cannot have: remove it, or exclude it in .dockerignore`;
  return new CommandError(message, 2);
}

/**
 * Returns the patterns in a .dockerignore as a builder normalizes them: without comments, spaces, `./` and a leading `/`. Source: github.com/moby/patternmatcher, ignorefile.
 */
export function readIgnoreFile(text: string): string[] {
  return text
    .replace(/^\ufeff/, '')
    .split('\n')
    .filter(line => !line.startsWith('#'))
    .map(line => line.trim())
    .filter(line => line !== '')
    .map(line =>
      line.startsWith('!') ? `!${cleanPattern(line.slice(1).trim())}` : cleanPattern(line),
    );
}

function cleanPattern(pattern: string): string {
  if (pattern === '') return '';
  const path = posix.normalize(pattern);
  return path.length > 1 ? path.replace(/^\//, '').replace(/(?<=.)\/$/, '') : path;
}

/** A layer in the form of a container request. */
interface PackedLayer {
  readonly location: string;
  readonly gzipDigest: string;
  readonly gzipSize: number;
  readonly tarDigest: string;
}

// Byte 9 of the gzip header is the operating system (RFC 1952, section 2.3); 255 means unknown.
const gzipSystemByte = 9;
const flushBytes = 1024 * 1024;

/**
 * Packs the content of a directory into a layer for the root of the image. The same files give the same bytes on every
 * machine: entries are sorted by name and have neither times nor owners.
 */
export function packDirectory(directory: string): Promise<PackedLayer> {
  return packEntries(add => addEntries(directory, '', add));
}

/** Packs the added entries, in the order of their addition. */
async function packEntries(addAll: (add: Add) => Promise<void>): Promise<PackedLayer> {
  const gzip = createGzip({ level: 9 });
  const packed = buffer(gzip);
  const hash = createHash('sha256');
  let parts: Buffer[] = [];
  let size = 0;
  // The tar file is never in memory as a whole: it has at least 512 bytes for each entry.
  const flush = async () => {
    const bytes = Buffer.concat(parts);
    [parts, size] = [[], 0];
    hash.update(bytes);
    if (!gzip.write(bytes)) await once(gzip, 'drain');
  };
  await addAll(async (entry, content = Buffer.alloc(0)) => {
    const header = packedHeader({ ...entry, size: content.length });
    const added = [header, content, tarPadding(content.length)];
    parts.push(...added);
    size += added.reduce((sum, { length }) => sum + length, 0);
    if (size >= flushBytes) await flush();
  });
  parts.push(tarEnd);
  await flush();
  gzip.end();
  const bytes = await packed;
  bytes[gzipSystemByte] = 255;
  return { ...layerOf(bytes), tarDigest: `sha256:${hash.digest('hex')}` };
}

/** Returns a tar.gz file as a layer with unchanged bytes. */
export function layerOf(gzip: Buffer): Omit<PackedLayer, 'tarDigest'> {
  return {
    location: `data:${gzip.toString('base64')}`,
    gzipDigest: sha256(gzip),
    gzipSize: gzip.length,
  };
}

type Add = (entry: WrittenEntry, content?: Buffer) => Promise<void>;

async function addEntries(root: string, below: string, add: Add): Promise<void> {
  const names = await readdir(join(root, below));
  for (const name of names.sort(byBytes)) {
    const path = below === '' ? name : `${below}/${name}`;
    await addEntry(root, path, add);
  }
}

async function addEntry(root: string, path: string, add: Add): Promise<void> {
  const file = join(root, path);
  const status = await lstat(file);
  const mode = status.mode & 0o7777;
  if (status.isDirectory()) {
    await add({ path, kind: 'directory', mode });
    await addEntries(root, path, add);
  } else if (status.isSymbolicLink()) {
    await add({ path, kind: 'symlink', mode: 0o777, link: await readlink(file) });
  } else if (status.isFile()) {
    await add({ path, kind: 'file', mode }, await readFile(file));
  } else {
    throw new CommandError(
      `${file} is neither a file, a directory nor a symbolic link: remove it from the layer`,
    );
  }
}

// The order of localeCompare depends on the machine.
function byBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

function sha256(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}
