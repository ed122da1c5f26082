import { posix } from 'node:path';
import type { Header } from 'tar-stream';
import type { FileTree, TreeEntry } from '../../../buildkit/index.ts';
import { maxEntries } from '../../../contexts/entry-list.ts';
import { Fault } from '../../../foundation/fault.ts';

/** An entry as tar-stream reports it. */
export interface TarEntry extends Partial<Omit<Header, 'name' | 'type'>> {
  readonly name: string;
  /** Null for a type that tar-stream does not know. */
  readonly type?: Header['type'];
  /** Offset of its content in the archive. */
  readonly byteOffset: number;
}

interface Node {
  readonly entry: TreeEntry;
  /** Offset of the file's content. */
  readonly offset: number;
}

export interface TarLimits {
  /** Maximum number of files, directories and links. */
  readonly maxEntries: number;
  /** Maximum number of characters in all paths together. */
  readonly maxPathText: number;
}

const usualLimits: TarLimits = { maxEntries, maxPathText: 64 * 1024 * 1024 };

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
  add(header: TarEntry): void {
    const path = cleanPath(header.name);
    if (path === '') return;
    const node = this.#nodeOf(path, header);
    if (this.#find(path)?.entry.kind === 'directory' && node.entry.kind !== 'directory') {
      refuse(`contains ${shown(path)} as a directory and as something else`);
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
        if (entry.size === 0) return nothing();
        const end = (offset ?? 0) + entry.size - 1;
        return readRange(offset ?? 0, end);
      },
    };
  }

  #nodeOf(path: string, header: TarEntry): Node {
    const { type = 'file', size = 0, byteOffset: offset, linkname } = header;
    const name = posix.basename(path);
    const mtimeMs = header.mtime?.getTime() || 0;
    const common = { name, mode: (header.mode ?? 0) & 0o7777, mtimeMs, size: 0 };
    switch (type) {
      case 'file':
      case 'contiguous-file':
        return { entry: { ...common, kind: 'file', size }, offset };
      case 'directory':
        return { entry: { ...common, kind: 'directory' }, offset };
      case 'symlink':
        if (!linkname) refuse(`contains a symbolic link without a target, ${shown(path)}`);
        if (Buffer.byteLength(linkname) > longestPath) {
          refuse(
            `contains a symbolic link, ${shown(path)}, to more than ${longestPath} bytes: shorten it`,
          );
        }
        return { entry: { ...common, kind: 'symlink', target: linkname }, offset };
      case 'link': {
        const targetPath = cleanPath(linkname ?? '');
        const target = this.#find(targetPath);
        if (target && target.entry.kind !== 'directory') {
          const { entry } =
            target.entry.kind === 'file' ? this.#linked(targetPath, target) : target;
          return { ...target, entry: { ...entry, name } };
        }
        return refuse(
          `contains a hard link, ${shown(path)}, to ${shown(linkname ?? '')}, which is not a file before it`,
        );
      }
      default:
        return refuse(
          `contains something other than files, directories and links, ${shown(path)}: leave it out`,
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
    if (found) refuse(`contains a path through ${shown(path)}, which is not a directory`);
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
      refuse(
        `contains more than ${maxEntries} files and directories: leave out those that are not needed`,
      );
    }
    if (this.#pathText > maxPathText) refuse('contains too many long paths');
    siblings?.set(node.entry.name, node);
    if (node.entry.kind === 'directory' && !this.#directories.has(path)) {
      this.#directories.set(path, new Map());
    }
  }
}

// The most that Linux takes, PATH_MAX.
const longestPath = 4096;

/** Returns `a/b` for `./a//b/`, and `''` for the root. */
function cleanPath(name: string): string {
  const parts = name.split('/').filter(part => part !== '' && part !== '.');
  if (name.startsWith('/') || parts.includes('..')) {
    refuse(`contains a path that leads out of it, ${shown(name)}: pack it with relative paths`);
  }
  if (Buffer.byteLength(name) > longestPath) {
    refuse(`contains a path longer than ${longestPath} bytes, ${shown(name)}: shorten it`);
  }
  if (name.includes('\0')) refuse(`contains a path with a NUL character, ${shown(name)}`);
  return parts.join('/');
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

function shown(path: string): string {
  const plain = path.replace(/\p{Cc}/gu, '?');
  return plain.length > 120 ? `'${plain.slice(0, 120)}...'` : `'${plain}'`;
}

function refuse(what: string): never {
  throw new Fault('bad-request', `The build context ${what}`, { phase: 'build' });
}
