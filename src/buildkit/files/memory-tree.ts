import { posix } from 'node:path';
import { type FileTree, parentOf, type TreeEntry } from './file-tree.ts';

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
