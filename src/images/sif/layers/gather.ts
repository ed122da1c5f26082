import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Descriptor } from '../../../oci/descriptor.ts';
import { type ConvertLimits, imageTooLarge } from '../limits.ts';
import type { ScratchSpace } from '../scratch-space.ts';
import { showBytes, showSince } from '../sizes.ts';
import type { TarEntry } from '../tar/tar-entry.ts';
import { applyEntry } from './apply.ts';
import { fetchLayer } from './fetch.ts';
import type { LayerFile } from './file.ts';
import { type KeptScripts, ScriptKeeper } from './kept-scripts.ts';
import { readLayer } from './read.ts';
import type { LayerSource } from './source.ts';
import { ImageTree } from './tree.ts';
import { checkLayerType } from './type.ts';
import { compressionOf } from './unpack.ts';
import { beginUnpackedCopy, type UnpackedCopy } from './unpacked-copy.ts';

export interface GatherOptions {
  /** Where fetched layers are put. */
  readonly directory: string;
  readonly space: ScratchSpace;
  readonly limits: ConvertLimits;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface GatheredImage {
  readonly layers: readonly LayerFile[];
  /** What files they make together. */
  readonly tree: ImageTree;
  /** What the build of a definition file has left in it. */
  readonly scripts: KeptScripts;
}

/** The network is kept busy while a layer is read. */
const fetchedAtOnce = 3;

/**
 * Brings the layers of an image to the disk, as far as they are not there, and reads what files they make.
 * Throws a {@link Fault} for layers that cannot be fetched, read or converted, and for more than the limits.
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
    // Whoever waits for it hears of its failure, which may come before.
    placing.catch(() => {});
    placed.push(placing);
  };
  try {
    for (let ahead = 0; ahead < fetchedAtOnce; ahead += 1) placeNext();
    return await readLayers(placed, placeNext, options);
  } catch (error) {
    failed.abort(error);
    // Nothing may be written any more when the caller cleans up.
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
  log(`fetching ${name}, ${showBytes(size)}`);
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
  const keeper = new ScriptKeeper();
  const layers: LayerFile[] = [];
  let bytes = 0;
  for (const placing of placed) {
    const file = await placing;
    // Adds to what this loop goes over.
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
      if (bytes > limits.maxUnpackedBytes) throw imageTooLarge(`${limits.maxUnpackedBytes} bytes`);
    };
    const visitor = {
      entry(entry: TarEntry) {
        // What is in the holes of a file comes from nowhere.
        if (entry.isSparse) take(entry.size);
        applyEntry(tree, entry, layer, entries);
        return keeper.takes(entry, layer, entries++);
      },
      content: (bytes: Buffer) => keeper.add(bytes),
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
  return { layers, tree, scripts: keeper.takeFrom(tree) };
}

/** The file that the layer is read from the second time. */
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
