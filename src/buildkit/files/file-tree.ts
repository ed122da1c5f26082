/** What a builder may see of a file. Owner and group are always root's. */
export interface TreeEntry {
  /** Without any `/`. */
  readonly name: string;
  readonly kind: 'file' | 'directory' | 'symlink';
  /** Permission bits with set-user-id, set-group-id and sticky: 0o7777 at most. */
  readonly mode: number;
  /** Bytes; 0 for what is no file. */
  readonly size: number;
  /** Milliseconds since the epoch. */
  readonly mtimeMs: number;
  /** Where a symlink points to. */
  readonly target?: string;
}

/** Files that a build may use. It must not change while it is used. */
export interface FileTree {
  /**
   * What is in a directory, in any order; the root is `''`, others are like `a/b`. Empty when there is
   * no such directory.
   */
  list(directory: string): Promise<readonly TreeEntry[]>;
  /** The bytes of a file; rejects when it cannot be read. */
  read(path: string): AsyncIterable<Uint8Array>;
}

/** The name of the directory that a path lies in, `''` for the root. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

/** `a/b` of `a` and `b`; the root is `''`. */
export function joined(directory: string, name: string): string {
  return directory === '' ? name : `${directory}/${name}`;
}

/** The same tree, which lists each directory once and remembers what was in it. */
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
