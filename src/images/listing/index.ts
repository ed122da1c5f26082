/** What is in layers: their listings, and comparisons of them. */

export type { ImageWaste, LayerWaste, WastedPath } from './comparing/image-waste.ts';
export { type LayerChange, layerChanges } from './comparing/merge-layers.ts';
export {
  createLayerListings,
  type LayerListings,
  type LayerLook,
  type ListingProgress,
  type ListingQuery,
  type ReadableLayer,
} from './layer-listings.ts';
export { keySeparator } from './listed-entry.ts';
export { openListingFiles } from './listing-files.ts';
export { DamagedListing } from './records/byte-codec.ts';
export type { OpenedTree, TreeSort } from './records/opened-tree.ts';
export { type StoredNode, sizeToSort, type TreeIndex } from './records/tree-file.ts';
