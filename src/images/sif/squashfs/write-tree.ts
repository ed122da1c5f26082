import { paddedSize, type TarEntry } from '../../../archives/index.ts';
import { gnuHeader, tarEnd, tarPadding } from '../../../archives/tar-writer.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { type LayerFile, layerFault } from '../layers/file.ts';
import { readLayer } from '../layers/read.ts';
import { allNodes, type ImageTree, pathOf, type TreeNode } from '../layers/tree.ts';

/** Receives the tar file of a tree. */
export interface TarSink {
  /** Resolves when the sink is ready for more. */
  write(parts: readonly Buffer[]): Promise<void>;
}

/**
 * Writes the complete tree as one tar file: first the entries without content in a layer, then the
 * files in the order of their layers, each followed by its hard links. The same tree gives the same
 * bytes. Throws when the signal is aborted.
 *
 * @param doneWith called when a layer is no longer needed
 */
export async function writeTree(
  tree: ImageTree,
  layers: readonly LayerFile[],
  sink: TarSink,
  signal: AbortSignal,
  doneWith: (layer: LayerFile) => Promise<void>,
): Promise<void> {
  const files = layers.map((): TreeNode[] => []);
  for await (const nodes of allNodes(tree)) {
    signal.throwIfAborted();
    const parts: Buffer[] = [];
    for (const node of nodes) {
      if (hasContentInLayer(node)) files[node.inode.layer]?.push(node);
      else if (node !== tree.root) parts.push(...entryOf(node));
    }
    if (parts.length > 0) await sink.write(parts);
  }
  for (const [index, layer] of layers.entries()) {
    const nodes = await inEntryOrder(files[index] ?? []);
    if (nodes.length > 0) await writeFiles(layer, nodes, sink, signal);
    await doneWith(layer);
  }
  await sink.write([tarEnd]);
}

function hasContentInLayer({ inode }: TreeNode): boolean {
  return inode.kind === 'file' && inode.bytes === undefined && inode.size > 0;
}

/** Copies files out of a layer. The nodes are in the order of their entries in the layer. */
async function writeFiles(
  layer: LayerFile,
  nodes: readonly TreeNode[],
  sink: TarSink,
  signal: AbortSignal,
): Promise<void> {
  let entries = 0;
  let position = 0;
  let missing = 0;
  let parts: Buffer[] = [];
  let links: Buffer[] = [];
  const visitor = {
    entry({ size }: TarEntry) {
      parts.push(...links);
      links = [];
      const entry = entries++;
      const [node, ...others] = namesOf(nodes, position, entry);
      if (node === undefined) return false;
      position += 1 + others.length;
      // The first read found its size in the same bytes.
      if (size !== node.inode.size)
        throw layerFault('internal', layer, 'changed while it was read');
      missing = paddedSize(size);
      parts.push(headerOf(node));
      links = others.map(other => linkTo(node, other));
      return true;
    },
    content(bytes: Buffer) {
      missing -= bytes.length;
      parts.push(bytes);
    },
  };
  await readLayer(layer, visitor, signal, async () => {
    if (parts.length > 0) await sink.write(parts);
    parts = [];
    return position < nodes.length || missing > 0;
  });
  if (position < nodes.length) throw layerFault('internal', layer, 'changed while it was read');
  await sink.write(links);
}

/** Returns the nodes for an entry of the layer: the next nodes, or none. */
function namesOf(nodes: readonly TreeNode[], position: number, entry: number): TreeNode[] {
  let end = position;
  while (nodes[end]?.inode.entry === entry) end += 1;
  return nodes.slice(position, end);
}

/** Returns the tar entry of a node without content in a layer. */
function entryOf(node: TreeNode): Buffer[] {
  const { bytes } = node.inode;
  const header = headerOf(node);
  if (bytes === undefined) return [header];
  return [header, bytes, tarPadding(bytes.length)];
}

function headerOf(node: TreeNode): Buffer {
  const { kind, mode, mtime, size, target, device, attributes } = node.inode;
  const common = {
    path: pathOf(node),
    mode,
    mtime,
    size,
    link: target,
    ...(attributes ? { attributes } : {}),
  };
  if (device === undefined) return gnuHeader({ ...common, kind });
  // A device outside /dev keeps ordinary users from unpacking the image: write an empty file instead.
  // Devices in /dev are kept: they are hidden in a container.
  const isKept = common.path.startsWith('dev/');
  return gnuHeader(isKept ? { ...common, kind, device } : { ...common, kind: 'file' });
}

function linkTo(node: TreeNode, link: TreeNode): Buffer {
  const { mode, mtime } = node.inode;
  return gnuHeader({
    path: pathOf(link),
    kind: 'link',
    mode,
    mtime,
    size: 0,
    link: pathOf(node),
  });
}

/** Sorting the files of this many entries takes about a millisecond. */
const groupEntries = 2048;
const nodesPerTurn = 2048;

/**
 * Returns the nodes of one layer in the order of their entries; the names of one entry keep their order. Yields to
 * other work in between: a layer may have millions of files.
 */
export async function inEntryOrder(nodes: readonly TreeNode[]): Promise<readonly TreeNode[]> {
  const groups: (TreeNode[] | undefined)[] = [];
  for (const [index, node] of nodes.entries()) {
    const group = Math.floor(node.inode.entry / groupEntries);
    groups[group] ??= [];
    groups[group].push(node);
    if (index % nodesPerTurn === 0) await pauseTurn();
  }
  const sorted: TreeNode[] = [];
  for (const group of groups) {
    if (!group) continue;
    group.sort((one, other) => one.inode.entry - other.inode.entry);
    for (const node of group) sorted.push(node);
    await pauseTurn();
  }
  return sorted;
}
