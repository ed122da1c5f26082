import { type Attributes, showName, type TarEntry, TarError } from '../../../archives/index.ts';
import { directory, type ImageTree, type Inode, partsOf, type TreeNode, touch } from './tree.ts';

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
  else if (name === opaque || name === whiteout) clear(tree.find(parts), layer);
  else if (name.startsWith(whiteout)) remove(tree, parts, name.slice(whiteout.length), layer);
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
    present.inode = directory(tarEntry.mode, tarEntry.mtime, ownAttributes(tarEntry));
    touch(present, layer);
  } else {
    tree.put(parent, name, linked ?? inodeOf(tarEntry, layer, entry), layer);
  }
}

function applyRoot(tree: ImageTree, { kind, mode, mtime, path }: TarEntry, layer: number): void {
  if (kind !== 'directory') {
    throw new TarError(`has a ${kind} in place of the root directory, ${showName(path)}`);
  }
  tree.root.inode = directory(mode, mtime);
  touch(tree.root, layer);
}

/** Removes the files of lower layers: a whiteout does not hide files of its own layer. */
function remove(tree: ImageTree, parts: readonly string[], name: string, layer: number): void {
  if (name === '.' || name === '..') {
    throw new TarError('has a whiteout that names no file');
  }
  const parent = tree.find(parts);
  const node = parent?.children?.get(name);
  if (node === undefined) return;
  if (node.touchedBy === layer) clear(node, layer);
  else parent?.children?.delete(name);
}

function clear(node: TreeNode | undefined, layer: number): void {
  // All below belongs to this layer after the first time. A layer may name a directory with many files very often.
  if (!node?.children || node.clearedBy === layer) return;
  node.clearedBy = layer;
  const { children } = node;
  const kept: TreeNode[] = [];
  if (node.touchedBy === layer) {
    for (const child of children.values()) if (child.touchedBy === layer) kept.push(child);
  }
  for (const child of kept) clear(child, layer);
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
  if (kind === 'directory') return directory(mode, mtime, attributes);
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
