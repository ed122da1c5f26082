import { createReadStream } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import { join, posix } from 'node:path';

/** The attributes of a file that a builder sees. Owner and group are always root. */
export interface TreeEntry {
  /** Name without any `/`. */
  readonly name: string;
  readonly kind: 'file' | 'directory' | 'symlink';
  /** Permission bits with set-user-id, set-group-id and sticky; at most 0o7777. */
  readonly mode: number;
  /** Bytes; 0 for anything other than a file. */
  readonly size: number;
  /** Milliseconds since the epoch. */
  readonly mtimeMs: number;
  /** Target of a symlink. */
  readonly target?: string;
  /**
   * The same text for all names of one file (hard links): a builder makes them one file again. Only for files with
   * several names.
   */
  readonly inode?: string | undefined;
  /** True for a pipe or a device, which a tree cannot hold: its reader decides what that means. */
  readonly isSpecial?: true;
}

/** Files that a build may use. The tree must not change during its use. */
export interface FileTree {
  /**
   * Returns the entries of a directory, in any order. The root is `''`; other directories look like `a/b`. Returns an
   * empty list for a directory that does not exist.
   */
  list(directory: string): Promise<readonly TreeEntry[]>;
  /** Returns the bytes of a file. Rejects if the file cannot be read. */
  read(path: string): AsyncIterable<Uint8Array>;
}

/** Returns the parent directory of a path; `''` for the root. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

/** Joins `a` and `b` to `a/b`; the root is `''`. */
export function joined(directory: string, name: string): string {
  return directory === '' ? name : `${directory}/${name}`;
}

/** Returns the same tree with a cache: it lists each directory once. */
export function remembering(tree: FileTree): FileTree {
  const lists = new Map<string, Promise<readonly TreeEntry[]>>();
  return {
    list(directory) {
      const known = lists.get(directory) ?? tree.list(directory);
      lists.set(directory, known);
      return known;
    },
    read: path => tree.read(path),
  };
}

const readBytes = 256 * 1024;
const statsAtOnce = 64;

/**
 * Returns a tree of the files below a local directory. Symlinks stay symlinks and are never followed here. Sockets
 * are left out, as BuildKit does. Pipes and devices are left out too, unless `marksSpecial` is true. Errors are those of
 * the file system.
 */
export function directoryTree(root: string, { marksSpecial = false } = {}): FileTree {
  return {
    async list(directory) {
      const path = join(root, directory);
      const names = await readdir(path, { encoding: 'buffer' }).catch(error => {
        if (directory === '' || !isAbsent(error)) throw error;
        return [];
      });
      const entries: TreeEntry[] = [];
      for (let start = 0; start < names.length; start += statsAtOnce) {
        const some = names.slice(start, start + statsAtOnce);
        const found = await Promise.all(some.map(name => entryOf(path, textOf(name, path))));
        for (const entry of found) {
          if (entry && (marksSpecial || !entry.isSpecial)) entries.push(entry);
        }
      }
      return entries;
    },
    read: path => createReadStream(join(root, path), { highWaterMark: readBytes }),
  };
}

/** Returns the text that all names of one file share. A number of JavaScript is too short for some file systems. */
async function inodeOf(path: string): Promise<string> {
  const { dev, ino } = await lstat(path, { bigint: true });
  return `${dev}:${ino}`;
}

async function entryOf(directory: string, name: string): Promise<TreeEntry | undefined> {
  const path = join(directory, name);
  const found = await lstat(path);
  const common = { name, mode: found.mode & 0o7777, mtimeMs: found.mtimeMs };
  if (found.isFile()) {
    const file = { ...common, kind: 'file', size: found.size } as const;
    return found.nlink > 1 ? { ...file, inode: await inodeOf(path) } : file;
  }
  if (found.isDirectory()) return { ...common, kind: 'directory', size: 0 };
  if (found.isSocket()) return undefined;
  if (!found.isSymbolicLink()) return { ...common, kind: 'file', size: 0, isSpecial: true };
  return { ...common, kind: 'symlink', size: 0, target: await readlink(path) };
}

// The builder accepts only UTF-8 names.
function textOf(name: Buffer, directory: string): string {
  const text = name.toString();
  if (!Buffer.from(text).equals(name)) {
    throw new Error(`A file in ${directory} has a name that is not UTF-8: ${text}`);
  }
  return text;
}

function isAbsent({ code }: NodeJS.ErrnoException): boolean {
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** A file as text or bytes, or with more attributes; a symlink; an empty directory. */
export type MemoryFile =
  | string
  | Uint8Array
  | {
      readonly data: string | Uint8Array;
      /** Permission bits. Default: 0o644. */
      readonly mode?: number;
      readonly mtimeMs?: number;
    }
  | { readonly symlink: string }
  | { readonly directory: true; readonly mode?: number };

interface Node {
  readonly entry: TreeEntry;
  readonly data: Uint8Array;
}

/**
 * Returns a tree of files in memory by path, such as `src/main.c`. Parent directories exist implicitly. All times are
 * the epoch by default, so that the builder's cache recognises the same files. Throws a `TypeError` for a path that is
 * not relative and normalized, or that leads through a file.
 */
export function memoryTree(files: Readonly<Record<string, MemoryFile>>): FileTree {
  const nodes = new Map<string, Node>();
  for (const [path, file] of Object.entries(files)) {
    checkPath(path);
    nodes.set(path, nodeOf(posix.basename(path), file));
  }
  for (const path of Object.keys(files)) {
    for (let above = parentOf(path); above !== ''; above = parentOf(above)) {
      const node = nodes.get(above) ?? nodeOf(posix.basename(above), { directory: true });
      if (node.entry.kind !== 'directory') throw new TypeError(`'${above}' is not a directory`);
      nodes.set(above, node);
    }
  }
  const byDirectory = Map.groupBy(nodes, ([path]) => parentOf(path));
  return {
    async list(directory) {
      return (byDirectory.get(directory) ?? []).map(([, { entry }]) => entry);
    },
    async *read(path) {
      const node = nodes.get(path);
      if (node?.entry.kind !== 'file') throw new Error(`'${path}' is not a file`);
      yield node.data;
    },
  };
}

function nodeOf(name: string, file: MemoryFile): Node {
  const common = { name, size: 0, mtimeMs: 0 };
  const none = new Uint8Array();
  if (typeof file === 'string' || file instanceof Uint8Array) return nodeOf(name, { data: file });
  if ('symlink' in file) {
    return { entry: { ...common, kind: 'symlink', mode: 0o777, target: file.symlink }, data: none };
  }
  if ('directory' in file) {
    return { entry: { ...common, kind: 'directory', mode: file.mode ?? 0o755 }, data: none };
  }
  const data = typeof file.data === 'string' ? Buffer.from(file.data) : file.data;
  const { mode = 0o644, mtimeMs = 0 } = file;
  return { entry: { name, kind: 'file', mode, size: data.length, mtimeMs }, data };
}

function checkPath(path: string): void {
  const isClean = path !== '' && path !== '.' && posix.normalize(path) === path;
  if (!isClean || path.startsWith('/') || path.endsWith('/') || /^\.\.(\/|$)|\0/.test(path)) {
    throw new TypeError(`'${path}' is not a clean relative path`);
  }
}
