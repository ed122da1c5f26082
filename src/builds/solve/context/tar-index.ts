import { posix } from 'node:path';
import type { TarEntry } from '../../../archives/index.ts';
import { maxContextEntries, maxPathBytes } from '../../../archives/tar-limits.ts';
import type { FileTree, TreeEntry } from '../../../buildkit/index.ts';
import { Fault } from '../../../foundation/fault.ts';

/** An entry whose path and link are text. */
interface IndexedEntry
  extends Pick<TarEntry, 'path' | 'kind' | 'mode' | 'size'>,
    Partial<Pick<TarEntry, 'mtime' | 'link'>> {
  /** Position of its content in the archive. */
  readonly contentStart: number;
}

interface Node {
  readonly entry: TreeEntry;
  /** Offset of the file's content. */
  readonly offset: number;
}

interface TarLimits {
  /** Maximum number of files, directories and links. */
  readonly maxEntries: number;
  /** Maximum number of characters in all paths together. */
  readonly maxPathText: number;
}

const usualLimits: TarLimits = {
  maxEntries: maxContextEntries,
  maxPathText: 64 * 1024 * 1024,
};

/**
 * Index of the entries of a tar file. Nothing is ever unpacked, so no entry can reach outside. Symlinks stay links for
 * the builder to follow; a hard link becomes a further name of the file that it names. Source: POSIX.1-2017, pax.
 */
export class TarIndex {
  readonly #directories = new Map<string, Map<string, Node>>([['', new Map()]]);
  readonly #limits: TarLimits;
  #entries = 0;
  #pathText = 0;
  #inodes = 0;

  constructor(limits: TarLimits = usualLimits) {
    this.#limits = limits;
  }

  /** Adds the next entry of the archive. Throws a {@link Fault} for one that cannot be in a build context. */
  add(indexed: IndexedEntry): void {
    const path = cleanPath(indexed.path);
    if (path === '') return;
    const node = this.#nodeOf(path, indexed);
    if (this.#find(path)?.entry.kind === 'directory' && node.entry.kind !== 'directory') {
      refuseTar(`contains ${shownPath(path)} as a directory and as something else`);
    }
    this.#makeDirectory(posix.dirname(path));
    this.#put(path, node);
  }

  /**
   * Returns the files. Their content is read when a builder requests it.
   *
   * @param readRange returns the bytes of the archive from `start` to `end`, both included
   */
  tree(readRange: (start: number, end: number) => AsyncIterable<Uint8Array>): FileTree {
    return {
      list: async directory =>
        [...(this.#directories.get(directory)?.values() ?? [])].map(({ entry }) => entry),
      read: path => {
        const { entry, offset } = this.#find(path) ?? {};
        if (entry?.kind !== 'file') throw new Error(`'${path}' is not a file`);
        if (entry.size === 0) return noBytes();
        const end = (offset ?? 0) + entry.size - 1;
        return readRange(offset ?? 0, end);
      },
    };
  }

  #nodeOf(path: string, indexed: IndexedEntry): Node {
    const { kind, mode, size, mtime = 0, link = '', contentStart: offset } = indexed;
    const name = posix.basename(path);
    const seconds = Math.min(Math.max(mtime, -farthest), farthest);
    const common = { name, mode, mtimeMs: 1000 * seconds, size: 0 };
    switch (kind) {
      case 'file':
        return { entry: { ...common, kind: 'file', size }, offset };
      case 'directory':
        return { entry: { ...common, kind: 'directory' }, offset };
      case 'symlink':
        if (link === '') refuseTar(`contains a symbolic link without a target, ${shownPath(path)}`);
        if (Buffer.byteLength(link) > maxPathBytes) {
          refuseTar(
            `contains a symbolic link, ${shownPath(path)}, to more than ${maxPathBytes} bytes: shorten it`,
          );
        }
        return { entry: { ...common, kind: 'symlink', target: link }, offset };
      case 'link': {
        const targetPath = cleanPath(link);
        const target = this.#find(targetPath);
        if (target && target.entry.kind !== 'directory') {
          const { entry } =
            target.entry.kind === 'file' ? this.#linked(targetPath, target) : target;
          return { ...target, entry: { ...entry, name } };
        }
        return refuseTar(
          `contains a hard link, ${shownPath(path)}, to ${shownPath(link)}, which is not a file before it`,
        );
      }
      default:
        return refuseTar(
          `contains something other than files, directories and links, ${shownPath(path)}: leave it out`,
        );
    }
  }

  /** Returns a file of the index as one that has several names. */
  #linked(path: string, file: Node): Node {
    if (file.entry.inode !== undefined) return file;
    this.#inodes += 1;
    const linked = { ...file, entry: { ...file.entry, inode: String(this.#inodes) } };
    this.#put(path, linked);
    return linked;
  }

  #find(path: string): Node | undefined {
    return this.#directories.get(parentOf(path))?.get(posix.basename(path));
  }

  /** Adds a directory that the archive may list later or not at all. */
  #makeDirectory(path: string): void {
    if (path === '.') return;
    const found = this.#find(path);
    if (found?.entry.kind === 'directory') return;
    if (found) refuseTar(`contains a path through ${shownPath(path)}, which is not a directory`);
    this.#makeDirectory(posix.dirname(path));
    const name = posix.basename(path);
    const entry = { name, kind: 'directory', mode: 0o755, size: 0, mtimeMs: 0 } as const;
    this.#put(path, { entry, offset: 0 });
  }

  #put(path: string, node: Node): void {
    const { maxEntries, maxPathText } = this.#limits;
    const siblings = this.#directories.get(parentOf(path));
    if (!siblings?.has(node.entry.name)) {
      this.#entries += 1;
      this.#pathText += path.length + (node.entry.target?.length ?? 0);
    }
    if (this.#entries > maxEntries) {
      refuseTar(
        `contains more than ${maxEntries} files and directories: leave out those that are not needed`,
      );
    }
    if (this.#pathText > maxPathText) refuseTar('contains too many long paths');
    siblings?.set(node.entry.name, node);
    if (node.entry.kind === 'directory' && !this.#directories.has(path)) {
      this.#directories.set(path, new Map());
    }
  }
}

// A builder takes nanoseconds in 64 bits.
const farthest = 2 ** 32;

/** Returns `a/b` for `./a//b/`, and `''` for the root. */
function cleanPath(name: string): string {
  const parts = name.split('/').filter(part => part !== '' && part !== '.');
  if (name.startsWith('/') || parts.includes('..')) {
    refuseTar(
      `contains a path that leads out of it, ${shownPath(name)}: pack it with relative paths`,
    );
  }
  if (Buffer.byteLength(name) > maxPathBytes) {
    refuseTar(`contains a path longer than ${maxPathBytes} bytes, ${shownPath(name)}: shorten it`);
  }
  if (name.includes('\0')) refuseTar(`contains a path with a NUL character, ${shownPath(name)}`);
  return parts.join('/');
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

async function* noBytes(): AsyncGenerator<Uint8Array> {}

function shownPath(path: string): string {
  const plain = path.replace(/\p{Cc}/gu, '?');
  return plain.length > 120 ? `'${plain.slice(0, 120)}...'` : `'${plain}'`;
}

function refuseTar(what: string): never {
  throw new Fault('bad-request', `The build context ${what}`, { phase: 'build' });
}

type ReadRange = (start: number, end: number) => AsyncIterable<Uint8Array>;

const windowBytes = 1024 * 1024;
/** A builder requests files in their order, a few at a time. */
const mostWindows = 4;
/** Larger ranges are read alone. */
const smallBytes = 64 * 1024;

/**
 * Returns a function that reads ranges as `read` does, and keeps what surrounds a small one: a build context can have
 * very many small files, and opening its content for each of them takes longer than everything else.
 *
 * @param size bytes of the whole content
 */
export function readAhead(read: ReadRange, size: number): ReadRange {
  const windows = new Map<number, Promise<Buffer>>();

  const windowAt = (index: number): Promise<Buffer> => {
    const known = windows.get(index);
    const window = known ?? collectedBytes(read(index * windowBytes, endOf(index)));
    // The last one used is the last one removed.
    windows.delete(index);
    windows.set(index, window);
    window.catch(() => windows.get(index) === window && windows.delete(index));
    const [oldest] = windows.keys();
    if (windows.size > mostWindows && oldest !== undefined) windows.delete(oldest);
    return window;
  };
  const endOf = (index: number) => Math.min(size, (index + 1) * windowBytes) - 1;

  async function* readSmall(start: number, end: number): AsyncGenerator<Uint8Array> {
    for (let from = start; from <= end; ) {
      const index = Math.floor(from / windowBytes);
      const to = Math.min(end, endOf(index));
      const base = index * windowBytes;
      yield (await windowAt(index)).subarray(from - base, to - base + 1);
      from = to + 1;
    }
  }

  return (start, end) =>
    end - start < smallBytes && end < size ? readSmall(start, end) : read(start, end);
}

async function collectedBytes(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(piece);
  return Buffer.concat(parts);
}
