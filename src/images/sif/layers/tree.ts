import {
  type Attributes,
  showName,
  type TarEntry,
  TarError,
  type TarKind,
} from '../../../archives/index.ts';
import { maxNameBytes, maxPathBytes } from '../../../archives/tar-limits.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { imageTooLarge } from '../conversion-limits.ts';

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
    this.root = nodeOf('', undefined, directoryInode(0o755, 0), 0);
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
      (parent, name) => this.put(parent, name, directoryInode(0o755, mtime), layer),
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
    touchNode(parent, layer);
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

function directoryInode(mode: number, mtime: number, attributes?: Attributes): Inode {
  return { ...emptyInode, kind: 'directory', mode, mtime, attributes };
}

/** Records that a layer has an entry for a node or for a node below it. */
function touchNode(node: TreeNode, layer: number): void {
  for (let at: TreeNode | undefined = node; at && at.touchedBy !== layer; at = at.parent) {
    at.touchedBy = layer;
  }
}

const emptyInode = {
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

const whiteout = '.wh.';
const opaque = '.wh..wh..opq';

/**
 * Applies the next entry of a layer to the tree that lower layers and earlier entries of the layer made.
 * The order of entries within a layer does not matter, except that a hard link follows its target.
 * Throws {@link TarError} for an entry that no container program can unpack.
 * Source: OCI image specification layer.md, Applying Changesets.
 *
 * @param layer number of the layer, counted from 0
 * @param entry number of the entry in its layer, counted from 0
 */
export function applyEntry(
  tree: ImageTree,
  tarEntry: TarEntry,
  layer: number,
  entry: number,
): void {
  const parts = partsOf(tarEntry.path);
  const name = parts.pop();
  if (name === undefined) applyRoot(tree, tarEntry, layer);
  // A whiteout without a name clears its directory, as in umoci.
  else if (name === opaque || name === whiteout) clearDirectory(tree.find(parts), layer);
  else if (name.startsWith(whiteout)) removeEntry(tree, parts, name.slice(whiteout.length), layer);
  else applyFile(tree, parts, name, tarEntry, layer, entry);
}

function applyFile(
  tree: ImageTree,
  parts: readonly string[],
  name: string,
  tarEntry: TarEntry,
  layer: number,
  entry: number,
): void {
  // Look up the target first: it may be below the node that the link replaces.
  const linked = tarEntry.kind === 'link' ? targetOf(tree, tarEntry) : undefined;
  const parent = tree.make(parts, layer, tarEntry.mtime);
  const present = parent.children?.get(name);
  if (tarEntry.kind === 'directory' && present?.children) {
    present.inode = directoryInode(tarEntry.mode, tarEntry.mtime, ownAttributes(tarEntry));
    touchNode(present, layer);
  } else {
    tree.put(parent, name, linked ?? inodeOf(tarEntry, layer, entry), layer);
  }
}

function applyRoot(tree: ImageTree, { kind, mode, mtime, path }: TarEntry, layer: number): void {
  if (kind !== 'directory') {
    throw new TarError(`has a ${kind} in place of the root directory, ${showName(path)}`);
  }
  tree.root.inode = directoryInode(mode, mtime);
  touchNode(tree.root, layer);
}

/** Removes the files of lower layers: a whiteout does not hide files of its own layer. */
function removeEntry(tree: ImageTree, parts: readonly string[], name: string, layer: number): void {
  if (name === '.' || name === '..') {
    throw new TarError('has a whiteout that names no file');
  }
  const parent = tree.find(parts);
  const node = parent?.children?.get(name);
  if (node === undefined) return;
  if (node.touchedBy === layer) clearDirectory(node, layer);
  else parent?.children?.delete(name);
}

function clearDirectory(node: TreeNode | undefined, layer: number): void {
  // All below belongs to this layer after the first time. A layer may name a directory with many files very often.
  if (!node?.children || node.clearedBy === layer) return;
  node.clearedBy = layer;
  const { children } = node;
  const kept: TreeNode[] = [];
  if (node.touchedBy === layer) {
    for (const child of children.values()) if (child.touchedBy === layer) kept.push(child);
  }
  for (const child of kept) clearDirectory(child, layer);
  if (kept.length === children.size) return;
  // Removing the others one by one takes ten times as long for a directory with very many files.
  children.clear();
  for (const child of kept) children.set(child.name, child);
}

function targetOf(tree: ImageTree, { path, link }: TarEntry): Inode {
  const parts = partsOf(link);
  const name = parts.pop();
  const target = name === undefined ? tree.root : tree.find(parts)?.children?.get(name);
  if (target === undefined) {
    throw new TarError(`has a hard link, ${showName(path)}, to a missing file, ${showName(link)}`);
  }
  if (target.children) {
    throw new TarError(`has a hard link, ${showName(path)}, to a directory, ${showName(link)}`);
  }
  return target.inode;
}

function inodeOf(tarEntry: TarEntry, layer: number, entry: number): Inode {
  const { kind, mode, mtime, size, link, path, device } = tarEntry;
  const attributes = ownAttributes(tarEntry);
  if (kind === 'link') throw new TarError('has a hard link to nothing');
  if (kind === 'directory') return directoryInode(mode, mtime, attributes);
  if (kind === 'symlink' && link === '') {
    throw new TarError(`has a symbolic link to nothing, ${showName(path)}`);
  }
  // A substring would keep the whole original string in memory.
  const target = kind === 'symlink' ? Buffer.from(link, 'latin1').toString('latin1') : '';
  return {
    kind,
    mode,
    mtime,
    size,
    layer,
    entry,
    bytes: undefined,
    target,
    device,
    attributes,
    written: undefined,
  };
}

/** Copies the strings, which frees the originals. Only files and directories can have `user.*` attributes. */
function ownAttributes({ kind, attributes }: TarEntry): Attributes | undefined {
  if (kind !== 'file' && kind !== 'directory') return undefined;
  const own = (text: string) => Buffer.from(text, 'latin1').toString('latin1');
  return attributes?.map(([name, value]) => [own(name), own(value)]);
}
