import type { ImageWaste, ListingProgress } from '../../../images/listing/index.ts';
import {
  type LayerContents,
  type LayerFilesCaller,
  type LayerFilesDeps,
  type LayerFilesQuery,
  layerFiles,
} from '../../../request/index.ts';
import { type LayerView, viewImage } from '../image-view.ts';

/** What the page of a layer shows. */
export interface LayerData {
  readonly address: LayerAddress;
  readonly layer: LayerView;
  /** Digests of all layers, the lowest first. */
  readonly digests: readonly string[];
  /** The step that made the layer. */
  readonly createdBy: string;
  readonly progress: ListingProgress | undefined;
  readonly failure: string | undefined;
  readonly isCompared: boolean;
  readonly waste: ImageWaste | undefined;
  readonly contents: LayerContents | undefined;
}

/** Returns what a page shows about a layer. Throws a `Fault`, the same as for the page of the image. */
export async function layerData(
  address: LayerAddress,
  viewer: LayerFilesCaller,
  deps: LayerFilesDeps,
): Promise<LayerData> {
  const { chosen, at, ...files } = await layerFiles(address, viewer, deps);
  const view = await viewImage(chosen);
  const layer = view.layers[at] as LayerView;
  return {
    address,
    layer,
    ...files,
    digests: chosen.manifest.layers.map(({ digest }) => digest),
    createdBy: view.history.find(step => step.layer === layer.number)?.createdBy ?? '',
  };
}

export const layerPath = '/view/inspect/layer';

/** What the address of a page about a layer says. */
type LayerAddress = LayerFilesQuery & { readonly layer: string };

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
