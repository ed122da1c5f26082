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
