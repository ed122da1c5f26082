import type { LayerFilesQuery } from '../../../request/index.ts';

export const layerPath = '/view/inspect/layer';

/** What the address of a page about a layer says. */
export type LayerAddress = LayerFilesQuery & { readonly layer: string };

// A foreign layer has as many long names as it likes, and a page stays small.
const longestLink = 800;

/** Returns the address for a link in a list; undefined for one that is too long for a list. */
export function listedAddress(address: LayerAddress): string | undefined {
  const text = layerAddress(address);
  return text.length <= longestLink + address.image.length ? text : undefined;
}

/** Returns the address of a page. Leaves out what is usual. */
export function layerAddress(address: LayerAddress): string {
  const { image, platform, layer, path, sort, name, change, page } = address;
  const query = new URLSearchParams({ image });
  if (platform) query.set('platform', platform);
  query.set('layer', layer);
  if (path) query.set('path', path);
  if (sort && sort !== 'size') query.set('sort', sort);
  if (name) query.set('name', name);
  if (change) query.set('change', change);
  if (page && page > 1) query.set('page', String(page));
  return `${layerPath}?${query}`;
}
