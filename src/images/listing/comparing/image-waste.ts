import { z } from 'zod';
import type { LayerEvent } from './merge-layers.ts';
import { TopList } from './tree-builder.ts';

const wastedPathSchema = z.object({
  /** One character for each byte; names separated by NUL. */
  key: z.string(),
  bytes: z.number(),
  /** How often the image stores it in vain. */
  times: z.number(),
});

const layerWasteSchema = z.object({
  /** Bytes of all files of the layer. */
  bytes: z.number(),
  /** Those of them that a later layer replaces or removes, and files that the layer has twice. */
  wasted: z.number(),
  top: z.array(wastedPathSchema),
});

export const imageWasteSchema = z.object({
  bytes: z.number(),
  wasted: z.number(),
  top: z.array(wastedPathSchema),
  /** The lowest layer first. */
  layers: z.array(layerWasteSchema),
});

export type WastedPath = z.infer<typeof wastedPathSchema>;
export type LayerWaste = z.infer<typeof layerWasteSchema>;

/** The unpacked bytes of an image that nobody can see. */
export type ImageWaste = z.infer<typeof imageWasteSchema>;

const mostOfImage = 20;
const mostOfLayer = 10;
// A page does not show more of a path.
const mostKey = 400;

/** Returns what an image stores in vain. */
export function findWaste(count: number, events: Iterable<LayerEvent>): ImageWaste {
  const bytesOf = ({ bytes }: WastedPath) => bytes;
  const top = new TopList(mostOfImage, bytesOf);
  const layers = Array.from({ length: count }, () => ({
    bytes: 0,
    wasted: 0,
    top: new TopList(mostOfLayer, bytesOf),
  }));
  let path: WastedPath | undefined;
  const waste = (layer: number, key: string, bytes: number): void => {
    const own = layers[layer];
    if (!own || bytes === 0) return;
    own.wasted += bytes;
    own.top.add({ key: key.slice(0, mostKey), bytes, times: 1 });
    if (path?.key !== key) {
      if (path) top.add({ ...path, key: path.key.slice(0, mostKey) });
      path = { key, bytes: 0, times: 0 };
    }
    path.bytes += bytes;
    path.times += 1;
  };
  for (const { key, layer, entry, before } of events) {
    const own = layers[layer];
    if (own && entry) own.bytes += entry.size + entry.twice;
    if (entry) waste(layer, key, entry.twice);
    if (before) waste(before.layer, key, before.entry.size);
  }
  if (path) top.add({ ...path, key: path.key.slice(0, mostKey) });
  const sum = (one: 'bytes' | 'wasted') => layers.reduce((all, layer) => all + layer[one], 0);
  return {
    bytes: sum('bytes'),
    wasted: sum('wasted'),
    top: top.take(),
    layers: layers.map(layer => ({ ...layer, top: layer.top.take() })),
  };
}
