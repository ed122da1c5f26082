import { baseLayer, noteLayer } from './base.ts';
import { type Family, imageOf, type Kind } from './image.ts';
import { type Layer, layerOf } from './layer.ts';

/** The number, order and sameness of layers; Docker's classic store takes 125 at most. */
export const layers: Family = {
  none: async () => imageOf({ layers: [] }),
  '60': () => stack(60),
  '60-docker': () => stack(60, 'docker'),
  '120': () => stack(120),
  '124': () => stack(124, 'docker'),
  '125': () => stack(125, 'docker'),
  '126': () => stack(126, 'docker'),
  '127': () => stack(127, 'docker'),
  /** The same layer twice. */
  dup: async () => {
    const twice = await noteLayer('twice');
    return imageOf({ layers: [await baseLayer(), twice, await noteLayer('between'), twice] });
  },
  /** A file removed and a directory emptied by later layers. */
  whiteout: async () => {
    const first = await layerOf([
      { name: 'gone', content: 'must not be seen\n' },
      { name: 'opaque/' },
      { name: 'opaque/hidden', content: 'must not be seen\n' },
    ]);
    const second = await layerOf([
      { name: '.wh.gone', content: '' },
      { name: 'opaque/' },
      { name: 'opaque/.wh..wh..opq', content: '' },
      { name: 'opaque/shown', content: 'shown\n' },
    ]);
    return imageOf({ layers: [await baseLayer(), first, second] });
  },
};

async function stack(count: number, kind: Kind = 'oci') {
  const stacked: Layer[] = [await baseLayer()];
  for (let at = 1; at < count; at++) stacked.push(await noteLayer(`layer-${at}`));
  return imageOf({ kind, layers: stacked });
}
