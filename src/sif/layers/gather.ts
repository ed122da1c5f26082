import { join } from 'node:path';
import type { Descriptor } from '../../oci/descriptor.ts';
import { type ConvertLimits, imageTooLarge } from '../limits.ts';
import type { ScratchSpace } from '../scratch-space.ts';
import { showBytes, showSince } from '../sizes.ts';
import type { TarEntry } from '../tar/entry.ts';
import { applyEntry } from './apply.ts';
import { fetchLayer } from './fetch.ts';
import type { LayerFile } from './file.ts';
import { type KeptScripts, ScriptKeeper } from './kept-scripts.ts';
import { readLayer } from './read.ts';
import type { LayerSource } from './source.ts';
import { ImageTree } from './tree.ts';
import { checkLayerType } from './type.ts';

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
  await fetchLayer(layer, await source.openLayer(layer, signal), file, signal);
  log(`fetched ${name} in ${showSince(begin)}`);
  return file;
}

async function readLayers(
  placed: readonly Promise<LayerFile>[],
  placeNext: () => void,
  { limits, log, signal }: GatherOptions,
): Promise<GatheredImage> {
  const tree = new ImageTree(limits.maxEntries);
  const keeper = new ScriptKeeper();
  const layers: LayerFile[] = [];
  let bytes = 0;
  for (const placing of placed) {
    const file = await placing;
    // Adds to what this loop goes over.
    placeNext();
    const layer = layers.push(file) - 1;
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
    await readLayer(file, visitor, signal, size => {
      take(size);
      return true;
    });
    log(`read ${file.name}, ${entries} entries, in ${showSince(begin)}`);
  }
  return { layers, tree, scripts: keeper.takeFrom(tree) };
}
