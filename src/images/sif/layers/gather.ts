import { createHash } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TarEntry } from '../../../archives/index.ts';
import { sizeText } from '../../../foundation/text.ts';
import { splitDigest } from '../../../oci/digest.ts';
import type { Descriptor } from '../../../oci/index.ts';
import { type ByteSource, drain } from '../../../storage/content/byte-source.ts';
import {
  type ConvertLimits,
  imageTooLarge,
  type ScratchSpace,
  showSince,
} from '../conversion-limits.ts';
import { type KeptScripts, ScriptCollector } from './kept-scripts.ts';
import {
  checkLayerType,
  compressionOf,
  type LayerFile,
  layerFault,
  readLayer,
} from './read-layer.ts';
import { applyEntry, ImageTree } from './tree.ts';

/** Gives access to the layers of an image. */
export interface LayerSource {
  /** Lowest layer first. */
  readonly layers: readonly Descriptor[];
  /** Returns the compressed bytes of a layer. Called once for each layer without a local path. */
  openLayer(layer: Descriptor, signal: AbortSignal): Promise<ByteSource>;
  /** Returns the path of a verified file with the bytes of a layer, to be read in place; undefined for none. */
  localPath?(layer: Descriptor): Promise<string | undefined>;
}

interface GatherOptions {
  /** Directory for fetched layers. */
  readonly directory: string;
  readonly space: ScratchSpace;
  readonly limits: ConvertLimits;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface GatheredImage {
  readonly layers: readonly LayerFile[];
  /** The files of all layers together. */
  readonly tree: ImageTree;
  /** Files that the build of a definition file left in the image. */
  readonly scripts: KeptScripts;
}

/** Several at once keep the network busy while a layer is read. */
const fetchedAtOnce = 3;

/**
 * Fetches the layers of an image that are not on disk, and reads which files they contain.
 * Throws a {@link Fault} for a layer that cannot be fetched, read or converted, and for an image above the limits.
 */
export async function gatherLayers(
  source: LayerSource,
  options: GatherOptions,
): Promise<GatheredImage> {
  const count = source.layers.length;
  const nameOf = (index: number) => `layer ${index + 1} of ${count}`;
  for (const [index, layer] of source.layers.entries()) {
    checkLayerType(layer.mediaType, nameOf(index));
  }
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const placed: Promise<LayerFile>[] = [];
  const placeNext = () => {
    const index = placed.length;
    const layer = source.layers[index];
    if (!layer) return;
    const path = join(options.directory, String(index));
    const placing = placeLayer(source, layer, nameOf(index), path, { ...options, signal });
    // The promise may reject before anyone awaits it; the later await reports the error.
    placing.catch(() => {});
    placed.push(placing);
  };
  try {
    for (let ahead = 0; ahead < fetchedAtOnce; ahead += 1) placeNext();
    return await readLayers(placed, placeNext, options);
  } catch (error) {
    failed.abort(error);
    // All writes must end before the caller cleans up.
    await Promise.allSettled(placed);
    throw error;
  }
}

async function placeLayer(
  source: LayerSource,
  layer: Descriptor,
  name: string,
  path: string,
  { space, log, signal }: GatherOptions,
): Promise<LayerFile> {
  const { size } = layer;
  const local = await source.localPath?.(layer);
  if (local !== undefined) return { name, path: local, size, isScratch: false };
  space.take(size);
  const begin = performance.now();
  log(`fetching ${name}, ${sizeText(size)}`);
  const file = { name, path, size, isScratch: true };
  await fetchLayer(layer, await source.openLayer(layer, signal), file, space, signal);
  log(`fetched ${name} in ${showSince(begin)}`);
  return file;
}

async function readLayers(
  placed: readonly Promise<LayerFile>[],
  placeNext: () => void,
  { directory, space, limits, log, signal }: GatherOptions,
): Promise<GatheredImage> {
  const tree = new ImageTree(limits.maxEntries);
  const scripts = new ScriptCollector();
  const layers: LayerFile[] = [];
  let bytes = 0;
  for (const placing of placed) {
    const file = await placing;
    // Appends to the array that this loop iterates over.
    placeNext();
    const layer = layers.length;
    const isPacked = (await compressionOf(file.path)) !== 'none';
    const copy = isPacked
      ? await beginUnpackedCopy(join(directory, `${layer}.tar`), space)
      : undefined;
    let unpacked = 0;
    let entries = 0;
    const take = (size: number) => {
      bytes += size;
      if (bytes > limits.maxUnpackedBytes)
        throw imageTooLarge(`${limits.maxUnpackedBytes} unpacked bytes`, 'maxUnpackedBytes');
    };
    const visitor = {
      entry(entry: TarEntry) {
        // The archive does not contain the holes of a sparse file: count its full size.
        if (entry.isSparse) take(entry.size);
        applyEntry(tree, entry, layer, entries);
        return scripts.takes(entry, layer, entries++);
      },
      content: (bytes: Buffer) => scripts.add(bytes),
    };
    const begin = performance.now();
    try {
      await readLayer(file, visitor, signal, async piece => {
        take(piece.length);
        unpacked += piece.length;
        await copy?.write(piece);
        return true;
      });
      layers.push(await readTwice(file, unpacked, copy, space));
    } catch (error) {
      await copy?.abort();
      throw error;
    }
    log(`read ${file.name}, ${entries} entries, in ${showSince(begin)}`);
  }
  return { layers, tree, scripts: scripts.takeFrom(tree) };
}

/** Returns the file to use for the second read of the layer. */
async function readTwice(
  file: LayerFile,
  unpacked: number,
  copy: UnpackedCopy | undefined,
  space: ScratchSpace,
): Promise<LayerFile> {
  if (!copy) return file;
  const size = await copy.finish();
  const packed = { size: file.size, unpacked };
  if (size === undefined) return { ...file, packed };
  if (file.isScratch) {
    await rm(file.path);
    space.give(file.size);
  }
  return { name: file.name, path: copy.path, size, isScratch: true, isTar: true, packed };
}

/** Bytes per write. */
const batchBytes = 1024 * 1024;

/** A copy of a layer's tar file on disk: the layer is read twice but unpacked only once. */
interface UnpackedCopy {
  readonly path: string;
  /** Takes the next bytes. Resolves when it is ready for more. */
  write(bytes: Buffer): Promise<void>;
  /** Returns the size of the file in bytes, or undefined if there was not enough space for it. */
  finish(): Promise<number | undefined>;
  /** Removes the file. */
  abort(): Promise<void>;
}

/**
 * Starts a copy. Drops it when the disk or the limit of the conversion has no space for it.
 */
async function beginUnpackedCopy(path: string, space: ScratchSpace): Promise<UnpackedCopy> {
  const file = await open(path, 'wx');
  let parts: Buffer[] = [];
  let waiting = 0;
  let size = 0;
  let isGivenUp = false;
  let writing: Promise<unknown> = Promise.resolve();

  const giveUp = async () => {
    isGivenUp = true;
    await writing.catch(() => {});
    await file.close();
    await rm(path, { force: true });
    space.giveCopy(size);
  };
  const flush = async () => {
    try {
      await writing;
      // The write runs on another thread while the next bytes are unpacked.
      writing = file.writev(parts);
      writing.catch(() => {});
    } catch {
      await giveUp();
    }
    parts = [];
    waiting = 0;
  };

  return {
    path,

    async write(bytes) {
      if (isGivenUp) return;
      if (!space.takeCopy(bytes.length)) return giveUp();
      size += bytes.length;
      parts.push(bytes);
      waiting += bytes.length;
      if (waiting >= batchBytes) await flush();
    },

    async finish() {
      if (!isGivenUp) await flush();
      // The last write may fail, too.
      if (!isGivenUp) await writing.catch(giveUp);
      if (isGivenUp) return undefined;
      await file.close();
      return size;
    },

    async abort() {
      if (!isGivenUp) await giveUp();
    },
  };
}

/**
 * Writes a layer to a new file. Throws a {@link Fault} unless the layer has the size and digest in its manifest.
 * Also throws the errors of the source: the signal's reason after an abort.
 */
export async function fetchLayer(
  { digest, size }: Descriptor,
  source: ByteSource,
  file: LayerFile,
  space: Pick<ScratchSpace, 'write'>,
  signal: AbortSignal,
): Promise<void> {
  const { algorithm, hex } = splitDigest(digest);
  const hash = createHash(algorithm);
  const stop = () => source.destroy(signal.reason);
  signal.addEventListener('abort', stop);
  let written = 0;
  try {
    signal.throwIfAborted();
    await using target = await open(file.path, 'wx');
    await drain(source, async bytes => {
      written += bytes.length;
      if (written > size) throw layerFault('upstream', file, 'is larger than its manifest says');
      space.write(bytes.length);
      // The write runs on another thread while this one hashes.
      const writing = target.writeFile(bytes);
      hash.update(bytes);
      await writing;
    });
  } finally {
    signal.removeEventListener('abort', stop);
    source.destroy();
  }
  if (written < size) throw layerFault('upstream', file, 'is smaller than its manifest says');
  if (hash.digest('hex') !== hex) {
    throw layerFault('upstream', file, 'does not have the digest that its manifest specifies');
  }
}
