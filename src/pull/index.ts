/** Pulls: path, right, image, manifest, blobs. */

export { type BlobCache, createBlobCache } from './blobs/blob-cache.ts';
export { type BlobOrder, orderStored } from './blobs/blob-order.ts';
export {
  type ByteRange,
  createBlobRelays,
  type FoundBlob,
  type RangeOf,
} from './blobs/blob-relays.ts';
export { createNamelessIngest } from './blobs/nameless-ingest.ts';
export { type BlobFinder, blobOfBytes, createBlobFinder, keptBlob } from './blobs/pulled-blob.ts';
export { createRelayedBlobs, type RelayedBlobs } from './blobs/relayed-blobs.ts';
export { createTransfers } from './blobs/transfers.ts';
export {
  type AwaitBuild,
  createAwaitBuild,
  createFindBuilt,
  createImageFinder,
  type ImageFinder,
  StillBuilding,
} from './image-finder.ts';
export { createKeptRights } from './kept-rights.ts';
export { createLentImages, type LentImage, type LentImages } from './lent-images.ts';
export {
  containerSubject,
  createPullCounter,
  imageName,
  type PullCounter,
  servedSubjects,
} from './pull-counter.ts';
export { checkReference, decodeSegment, parsePullPath } from './pull-path.ts';
export { createCheckRight } from './pull-right.ts';
export {
  createManifestFinder,
  type ManifestFinder,
  type PulledImage,
  servedWith,
} from './pulled-image.ts';
export { listingOf } from './pulled-listing.ts';
export { createFindServedBase } from './served-base.ts';
