import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { paddedSize, tarBlockSize } from '../../../archives/index.ts';
import type { LayerFile } from '../layers/file.ts';
import type { GatheredImage } from '../layers/gather.ts';
import { allNodes, type ImageTree } from '../layers/tree.ts';
import type { ScratchSpace } from '../scratch-space.ts';
import { showBytes } from '../sizes.ts';
import type { Compression } from './compression.ts';
import { type Squasher, startMksquashfs } from './mksquashfs.ts';
import { type TarSink, writeTree } from './write-tree.ts';

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
