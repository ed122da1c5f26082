import { type Attributes, showName, TarError, type TarKind } from '../../../archives/index.ts';
import { maxNameBytes, maxPathBytes } from '../../../archives/tar-limits.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { imageTooLarge } from '../limits.ts';

/** The file behind a name; all names of a hard-linked file share one inode. */
export interface Inode {
  readonly kind: Exclude<TarKind, 'link'>;
  readonly mode: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Bytes of a file. */
  readonly size: number;
  /** Location of a file's content, unless `bytes` has it: layer and entry, both counted from 0. */
  readonly layer: number;
  readonly entry: number;
  readonly bytes: Buffer | undefined;
  /** Target of a symbolic link. */
  readonly target: string;
  readonly device: { readonly major: number; readonly minor: number } | undefined;
  readonly attributes?: Attributes | undefined;
  /** Index in `WrittenInodes`, while the squashfs is written. */
  written?: number | undefined;
}

/** A name in the tree. */
export interface TreeNode {
  readonly name: string;
  readonly parent: TreeNode | undefined;
  inode: Inode;
  /** The last layer with an entry for this node or for a node below it. */
  touchedBy: number;
  /** The last layer that has removed the files of lower layers below this node; -1 for none. */
  clearedBy: number;
  /** Children of a directory; undefined for other kinds. */
  readonly children: Map<string, TreeNode> | undefined;
}

/** The limit of Linux, which fails with ELOOP. */
const maxLinks = 40;
/** Names in the targets of the links on one path. A few long targets could lead to and fro all the time. */
const maxLinkedNames = 4096;
/** Without the zero at its end. */
const maxPath = maxPathBytes - 1;
/** Total size of all names, targets and attributes, which are kept in memory. */
const maxTextBytes = 64 * 1024 * 1024;

/**
 * The files of an image in memory, without content: a few hundred bytes each. Paths are resolved as in
 * a container: symbolic links are followed, and no path leads out of the image.
 */
export class ImageTree {
  readonly root: TreeNode;
  readonly #maxEntries: number;
  #entries = 0;
  #textBytes = 0;

  /** @param maxEntries maximum number of names, including names removed later */
  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
    this.root = nodeOf('', undefined, directory(0o755, 0), 0);
  }

  /** Number of names, and more if some were removed. */
  get entries(): number {
    return this.#entries + 1;
  }

  /** Returns the directory at a path, or undefined if it does not exist. */
  find(parts: readonly string[]): TreeNode | undefined {
    const { at, missing } = this.#resolve(parts);
    return missing.length === 0 ? at : undefined;
  }

  /**
   * Returns the directory at a path. Creates missing directories with mode 0755, and replaces a file in the way.
   */
  make(parts: readonly string[], layer: number, mtime: number): TreeNode {
    const { at, missing } = this.#resolve(parts);
    return missing.reduce(
      (parent, name) => this.put(parent, name, directory(0o755, mtime), layer),
      at,
    );
  }

  /** Gives an inode a name in a directory. Replaces the node that had the name. */
  put(parent: TreeNode, name: string, inode: Inode, layer: number): TreeNode {
    this.#count(parent, name, inode);
    // A substring would keep the whole original string in memory.
    const ownName = Buffer.from(name, 'latin1').toString('latin1');
    const node = nodeOf(ownName, parent, inode, layer);
    parent.children?.set(ownName, node);
    touch(parent, layer);
    return node;
  }

  #count(parent: TreeNode, name: string, { target, attributes = [] }: Inode): void {
    if (name.length > maxNameBytes) {
      throw new TarError(`has a name longer than ${maxNameBytes} bytes, ${showName(name)}`);
    }
    if (pathBytes(parent) + name.length > maxPath) throw tooLongPath(name);
    if (target.length > maxPath) {
      throw new TarError(`has a symbolic link to more than ${maxPath} bytes, ${showName(name)}`);
    }
    this.#entries += 1;
    this.#textBytes += name.length + target.length;
    for (const [key, value] of attributes) this.#textBytes += key.length + value.length;
    if (this.#entries > this.#maxEntries)
      throw imageTooLarge(`${this.#maxEntries} files`, 'maxEntries');
    if (this.#textBytes > maxTextBytes) throw imageTooLarge('64 MiB of file names and attributes');
  }

  /** Returns the deepest existing directory on the path, and the names after it. */
  #resolve(parts: readonly string[]): { at: TreeNode; missing: string[] } {
    const rest = parts.toReversed();
    const missing: string[] = [];
    let at = this.root;
    let [links, linkedNames] = [0, 0];
    for (let part = rest.pop(); part !== undefined; part = rest.pop()) {
      if (part === '..') {
        if (missing.pop() === undefined) at = at.parent ?? at;
        continue;
      }
      const child = missing.length === 0 ? at.children?.get(part) : undefined;
      if (child?.inode.kind === 'symlink') {
        const { target } = child.inode;
        const names = target.split('/').filter(isPart);
        links += 1;
        linkedNames += names.length;
        if (links > maxLinks || linkedNames > maxLinkedNames) {
          throw new TarError(
            `has a path through too many symbolic links, ${showName(parts.join('/'))}`,
          );
        }
        if (target.startsWith('/')) at = this.root;
        rest.push(...names.toReversed());
      } else if (child?.children) {
        at = child;
      } else {
        missing.push(part);
      }
    }
    return { at, missing };
  }
}

/**
 * Splits a path into its names, with `.` and `..` resolved: no path leads above the root.
 * Throws {@link TarError} for a path that is too long.
 */
export function partsOf(path: string): string[] {
  if (path.length > maxPath) throw tooLongPath(path);
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '..') parts.pop();
    else if (isPart(part)) parts.push(part);
  }
  return parts;
}

const groupSize = 500;

/**
 * Yields every node, in groups of up to 500, each directory before its children. The order depends only on the tree.
 * Other work gets its turn in between: an image may have millions of files.
 */
export async function* allNodes({ root }: ImageTree): AsyncGenerator<readonly TreeNode[]> {
  const rest = [root];
  let group: TreeNode[] = [];
  for (let node = rest.pop(); node !== undefined; node = rest.pop()) {
    group.push(node);
    let added = 0;
    for (const child of node.children?.values() ?? []) {
      rest.push(child);
      added += 1;
      if (added % groupSize === 0) await pauseTurn();
    }
    if (group.length < groupSize) continue;
    yield group;
    await pauseTurn();
    group = [];
  }
  yield group;
}

/** Returns the path from the root, without a leading slash. */
export function pathOf(node: TreeNode): string {
  const { name, parent } = node;
  return parent?.parent ? `${pathOf(parent)}/${name}` : name;
}

export function directory(mode: number, mtime: number, attributes?: Attributes): Inode {
  return { ...nothing, kind: 'directory', mode, mtime, attributes };
}

/** Records that a layer has an entry for a node or for a node below it. */
export function touch(node: TreeNode, layer: number): void {
  for (let at: TreeNode | undefined = node; at && at.touchedBy !== layer; at = at.parent) {
    at.touchedBy = layer;
  }
}

const nothing = {
  size: 0,
  layer: 0,
  entry: 0,
  bytes: undefined,
  target: '',
  device: undefined,
  written: undefined,
};

function nodeOf(
  name: string,
  parent: TreeNode | undefined,
  inode: Inode,
  touchedBy: number,
): TreeNode {
  const children = inode.kind === 'directory' ? new Map<string, TreeNode>() : undefined;
  return { name, parent, inode, touchedBy, clearedBy: -1, children };
}

function pathBytes(node: TreeNode): number {
  let bytes = 0;
  for (let at: TreeNode | undefined = node; at; at = at.parent) bytes += at.name.length + 1;
  return bytes;
}

function tooLongPath(path: string): TarError {
  return new TarError(`has a path longer than ${maxPath} bytes, ${showName(path)}`);
}

function isPart(part: string): boolean {
  return part !== '' && part !== '.';
}
