import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TarEntry } from '../../../archives/index.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { sizeText } from '../../../foundation/text.ts';
import type { ScratchSpace } from '../conversion-limits.ts';
import type { GatheredImage } from '../layers/gather.ts';
import { type LayerFile, layerFault, readLayer } from '../layers/read-layer.ts';
import { allNodes, type ImageTree, type Inode, pathOf } from '../layers/tree.ts';
import type { Compression } from './compression.ts';
import { BlockThreads } from './write/block-threads.ts';
import { ContentWriter } from './write/content-writer.ts';
import { contentStart, writeDescription } from './write/description-writer.ts';
import { openOutput } from './write/squashfs-output.ts';
import { WrittenInodes } from './write/written-inodes.ts';

export interface SquashImageOptions {
  /** Threads that compress. Default: the number of processors, at most 8. */
  readonly processors?: number | undefined;
  /** Directory and name of the new file, and the bytes to leave free before the file system. */
  readonly directory: string;
  readonly output: string;
  readonly offset: number;
  readonly compression: Compression;
  readonly space: ScratchSpace;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Interval between log lines, in ms. */
const logEvery = 10_000;

/**
 * Writes an image as a squashfs. Root owns all files, as in an image that an ordinary user builds with Apptainer. Removes
 * fetched layers when they are no longer needed. The same image gives the same bytes on every machine. Throws a
 * {@link Fault} on failure; the type of error is not specified when the signal is aborted. No thread runs after an error,
 * but the file may exist.
 *
 * @returns size of the squashfs in bytes, without the free space before it
 */
export async function squashImage(
  { layers, tree }: Pick<GatheredImage, 'layers' | 'tree'>,
  options: SquashImageOptions,
): Promise<number> {
  const { directory, output, offset, compression, processors, space, log, signal } = options;
  const inodes = new WrittenInodes(tree.entries);
  const { entries, bytes, newest, repeatedSizes } = await measure(tree, inodes);
  log(`writing squashfs, ${entries} entries, ${sizeText(bytes)}`);
  signal.throwIfAborted();
  const isCompressed = isCompressible(layers);
  await using file = await open(join(directory, output), 'wx');
  const out = openOutput(file, offset, space);
  const threads = new BlockThreads(isCompressed ? compression : undefined, processors);
  const stop = () => threads.fail(signal.reason);
  signal.addEventListener('abort', stop);
  try {
    const content = new ContentWriter(inodes, threads, out, contentStart(compression), entries);
    let written = 0;
    let loggedAt = performance.now();
    const sink: ContentSink = {
      async begin(inode) {
        const index = inodes.indexOf(inode);
        await content.begin(index, inode.size, repeatedSizes.has(inode.size));
        written += inode.size;
        if (performance.now() - loggedAt < logEvery) return;
        loggedAt = performance.now();
        log(`squashed ${Math.floor((100 * written) / bytes)} %`);
      },
      add: part => content.add(part),
    };
    const doneWith = async ({ path, size, isScratch }: LayerFile) => {
      if (!isScratch) return;
      await rm(path);
      space.give(size);
    };
    await writeContents(tree, layers, sink, signal, doneWith);
    const contents = { end: await content.finish(), fragments: content.fragments, inodes };
    const about = { compression, isCompressed, time: newest };
    const size = await writeDescription(tree, contents, about, out, signal);
    // A file with the same content as an earlier one leaves its blocks behind.
    await file.truncate(offset + size);
    return size;
  } finally {
    signal.removeEventListener('abort', stop);
    await threads.end();
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
  /** Names; there are at most as many inodes. */
  readonly entries: number;
  readonly bytes: number;
  /** The time of the newest file, in seconds since the epoch. It becomes the time of the file system. */
  readonly newest: number;
  /** Sizes that several files have. */
  readonly repeatedSizes: ReadonlySet<number>;
}

/** Counts the names of all files, and what they have together. */
async function measure(tree: ImageTree, inodes: WrittenInodes): Promise<Measure> {
  const total = { entries: 0, bytes: 0, newest: 0 };
  const sizes = new Set<number>();
  const repeatedSizes = new Set<number>();
  for await (const nodes of allNodes(tree)) {
    for (const node of nodes) {
      // A device outside /dev keeps ordinary users from unpacking the image: write an empty file instead.
      // Devices in /dev are kept: they are hidden in a container.
      const isRemoved = node.inode.device && !pathOf(node).startsWith('dev/');
      if (isRemoved) node.inode = emptyFileOf(node.inode);
      const { inode } = node;
      const index = inodes.indexOf(inode);
      const links = (inodes.links[index] as number) + 1;
      inodes.links[index] = links;
      total.entries += 1;
      total.newest = Math.max(total.newest, inode.mtime);
      if (links > 1 || !hasContent(inode)) continue;
      total.bytes += inode.size;
      if (sizes.has(inode.size)) repeatedSizes.add(inode.size);
      else sizes.add(inode.size);
    }
  }
  const { inode } = tree.root;
  tree.root.inode = { ...inode, mtime: inode.mtime || total.newest };
  return { ...total, repeatedSizes };
}

/** Returns a file in place of a device, whose other names may be in /dev and stay what they are. */
function emptyFileOf(device: Inode): Inode {
  return { ...device, kind: 'file', size: 0, device: undefined, written: undefined };
}

/** Receives the content of files. Both methods resolve when the sink is ready for more. */
export interface ContentSink {
  begin(inode: Inode): Promise<void>;
  /** Takes the next bytes of the file. They may go on after its end. */
  add(bytes: Buffer): Promise<void>;
}

/**
 * Writes the content of all files: first of those that are in no layer, then those of the layers, in the order of their
 * entries. The same tree gives the same order. Throws when the signal is aborted.
 *
 * @param doneWith called when a layer is no longer needed
 */
export async function writeContents(
  tree: ImageTree,
  layers: readonly LayerFile[],
  sink: ContentSink,
  signal: AbortSignal,
  doneWith: (layer: LayerFile) => Promise<void>,
): Promise<void> {
  const files = layers.map((): Inode[] => []);
  for await (const nodes of allNodes(tree)) {
    signal.throwIfAborted();
    for (const { inode } of nodes) {
      if (!hasContent(inode)) continue;
      if (inode.bytes) {
        await sink.begin(inode);
        await sink.add(inode.bytes);
      } else files[inode.layer]?.push(inode);
    }
  }
  for (const [index, layer] of layers.entries()) {
    const inodes = await inEntryOrder(files[index] ?? []);
    if (inodes.length > 0) await writeFiles(layer, inodes, sink, signal);
    await doneWith(layer);
  }
}

function hasContent({ kind, size }: Inode): boolean {
  return kind === 'file' && size > 0;
}

/** Copies files out of a layer. The inodes are in the order of their entries in the layer. */
async function writeFiles(
  layer: LayerFile,
  inodes: readonly Inode[],
  sink: ContentSink,
  signal: AbortSignal,
): Promise<void> {
  let entries = 0;
  let position = 0;
  let missing = 0;
  let parts: (Inode | Buffer)[] = [];
  const visitor = {
    entry({ size }: TarEntry) {
      const inode = inodes[position];
      if (inode?.entry !== entries++) return false;
      position += 1;
      // The first read found its size in the same bytes.
      if (size !== inode.size) throw layerFault('internal', layer, 'changed while it was read');
      missing = size;
      parts.push(inode);
      return true;
    },
    content(bytes: Buffer) {
      missing -= bytes.length;
      parts.push(bytes);
    },
  };
  await readLayer(layer, visitor, signal, async () => {
    for (const part of parts) {
      if (Buffer.isBuffer(part)) await sink.add(part);
      else await sink.begin(part);
    }
    parts = [];
    await pauseTurn();
    return position < inodes.length || missing > 0;
  });
  if (position < inodes.length) throw layerFault('internal', layer, 'changed while it was read');
}

/** Sorting the files of this many entries takes about a millisecond. */
const groupEntries = 2048;
const filesPerTurn = 2048;

/**
 * Returns the files of one layer in the order of their entries, each once: it may have several names. Yields to other work
 * in between: a layer may have millions of files. Groups take less memory than `sortInTurns`, which copies the list.
 */
export async function inEntryOrder(inodes: readonly Inode[]): Promise<readonly Inode[]> {
  const groups: (Inode[] | undefined)[] = [];
  for (const [index, inode] of inodes.entries()) {
    const group = Math.floor(inode.entry / groupEntries);
    groups[group] ??= [];
    groups[group].push(inode);
    if (index % filesPerTurn === 0) await pauseTurn();
  }
  const sorted: Inode[] = [];
  for (const group of groups) {
    if (!group) continue;
    group.sort((one, other) => one.entry - other.entry);
    for (const inode of group) if (inode !== sorted.at(-1)) sorted.push(inode);
    await pauseTurn();
  }
  return sorted;
}
