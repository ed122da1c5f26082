import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { paddedSize, type TarEntry, tarBlockSize } from '../../../archives/index.ts';
import { gnuHeader, tarEnd, tarPadding } from '../../../archives/tar-writer.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { type LayerFile, layerFault } from '../layers/file.ts';
import type { GatheredImage } from '../layers/gather.ts';
import { readLayer } from '../layers/read.ts';
import { allNodes, type ImageTree, pathOf, type TreeNode } from '../layers/tree.ts';
import type { ScratchSpace } from '../scratch-space.ts';
import { showBytes } from '../sizes.ts';
import type { Compression } from './compression.ts';
import { type Squasher, startMksquashfs } from './mksquashfs.ts';

export interface SquashImageOptions {
  /** Name or path of mksquashfs, and its number of threads. */
  readonly mksquashfs: string;
  readonly processors?: number | undefined;
  /** Directory and name of the new file, and the bytes to leave free before the file system. */
  readonly directory: string;
  readonly output: string;
  readonly offset: number;
  readonly compression: Compression;
  /** Milliseconds that mksquashfs may stall. */
  readonly stallMs: number;
  readonly space: ScratchSpace;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Interval between checks of the file size, in bytes of tar, and between log lines, in ms. */
const measureEvery = 64 * 1024 * 1024;
const tellEvery = 10_000;

/**
 * The most pairs of files of the same size. mksquashfs compares each file with all earlier files of its size, in a list:
 * so many comparisons take about ten seconds, for 28,000 files of one size. Part of the format: it decides the bytes.
 */
const mostPairs = 400_000_000;

/**
 * Writes an image as a squashfs. Removes fetched layers when they are no longer needed. The same image gives
 * the same bytes. Throws a {@link Fault} on failure; the type of error is not specified when the signal is
 * aborted. No process runs after an error, but the file may exist.
 *
 * @returns size of the squashfs in bytes, without the free space before it
 */
export async function squashImage(
  { layers, tree }: Pick<GatheredImage, 'layers' | 'tree'>,
  options: SquashImageOptions,
): Promise<number> {
  const { directory, output, offset, stallMs, compression, space, log, signal } = options;
  const { entries, bytes, tarBytes, newest, hasAttributes, pairs } = await measure(tree);
  log(`writing squashfs, ${entries} entries, ${showBytes(bytes)}`);
  const mergesDuplicates = pairs <= mostPairs;
  if (!mergesDuplicates)
    log('many files have the same size: files with the same content are stored separately');
  const path = join(directory, output);
  signal.throwIfAborted();
  // Space for the bytes written before the first check of the file size.
  space.expect(Math.min(tarBytes, measureEvery));
  const squasher = startMksquashfs({
    command: options.mksquashfs,
    processors: options.processors,
    directory,
    output,
    offset,
    rootMode: tree.root.inode.mode,
    time: newest,
    hasAttributes,
    stallMs,
    compression,
    isCompressed: isCompressible(layers),
    mergesDuplicates,
  });
  const stop = () => void squasher.stop();
  signal.addEventListener('abort', stop);
  try {
    const doneWith = async ({ path, size, isScratch }: LayerFile) => {
      if (!isScratch) return;
      await rm(path);
      space.give(size);
    };
    const tell = (written: number) => log(`squashed ${Math.floor((100 * written) / tarBytes)} %`);
    const sink = watched(squasher, path, space, tell);
    await writeTree(tree, layers, sink, signal, doneWith);
    await squasher.finish();
    return (await stat(path)).size - offset;
  } finally {
    signal.removeEventListener('abort', stop);
    await squasher.stop();
  }
}

/** Content that compression reduces by less than this is stored uncompressed, which is much faster. */
const leastGain = 0.05;

/** Returns false if the sizes of the layers show that compression hardly reduces their files. */
function isCompressible(layers: readonly LayerFile[]): boolean {
  let packed = 0;
  let unpacked = 0;
  for (const layer of layers) {
    if (!layer.packed) return true;
    packed += layer.packed.size;
    unpacked += layer.packed.unpacked;
  }
  return packed <= (1 - leastGain) * unpacked;
}

interface Measure {
  readonly entries: number;
  readonly bytes: number;
  /** Approximate size of the tar file to write. */
  readonly tarBytes: number;
  /**
   * The time of the newest file, in seconds since the epoch; also the time of the file system. mksquashfs sets
   * later times of files back to it, and an earlier value would make compiled files look stale. Times in the
   * future do not count: mksquashfs gives the root directory the current time, unless that is later.
   */
  readonly newest: number;
  readonly hasAttributes: boolean;
  /** Pairs of files of the same size. Several names of one file count as several files. */
  readonly pairs: number;
}

async function measure(tree: ImageTree): Promise<Measure> {
  const now = Date.now() / 1000;
  const total = { entries: 0, bytes: 0, tarBytes: 0, newest: 0, hasAttributes: false, pairs: 0 };
  const ofSize = new Map<number, number>();
  for await (const nodes of allNodes(tree)) {
    for (const { inode } of nodes) {
      total.entries += 1;
      total.bytes += inode.size;
      total.hasAttributes ||= (inode.attributes?.length ?? 0) > 0;
      total.tarBytes += tarBlockSize + paddedSize(inode.size);
      if (inode.kind === 'file' && inode.size > 0) {
        const others = ofSize.get(inode.size) ?? 0;
        total.pairs += others;
        ofSize.set(inode.size, others + 1);
      }
      if (inode.mtime <= now) total.newest = Math.max(total.newest, inode.mtime);
    }
  }
  return total;
}

/** Wraps the input of mksquashfs: accounts for disk space and reports progress. */
function watched(
  squasher: Squasher,
  path: string,
  space: ScratchSpace,
  tell: (written: number) => void,
): TarSink {
  let written = 0;
  let measuredAt = 0;
  let known = 0;
  let toldAt = performance.now();
  return {
    async write(parts) {
      await squasher.write(parts);
      for (const part of parts) written += part.length;
      if (written - measuredAt > measureEvery) {
        measuredAt = written;
        const { size } = await stat(path);
        space.take(size - known);
        space.write(size - known);
        known = size;
      }
      if (performance.now() - toldAt > tellEvery) {
        toldAt = performance.now();
        tell(written);
      }
    },
  };
}

/** Receives the tar file of a tree. */
interface TarSink {
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
