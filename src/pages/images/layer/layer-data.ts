import type { ImageWaste, ListingProgress } from '../../../images/listing/index.ts';
import {
  type LayerContents,
  type LayerFilesCaller,
  type LayerFilesDeps,
  layerFiles,
} from '../../../request/index.ts';
import { type LayerView, viewImage } from '../image-view.ts';
import type { LayerAddress } from './layer-address.ts';

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
