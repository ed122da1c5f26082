/** Pulls: path, right, image, manifest, blobs. */

export { createBlobCache } from './blobs/blob-cache.ts';
export { type BlobOrder, orderStored } from './blobs/blob-order.ts';
export { createBlobRelays } from './blobs/blob-relays.ts';
export type { ByteRange, FoundBlob, RangeOf } from './blobs/found-blob.ts';
export { createNamelessIngest } from './blobs/nameless-ingest.ts';
export { type BlobFinder, createBlobFinder, keptBlob } from './blobs/pulled-blob.ts';
export { createRelayedBlobs } from './blobs/relayed-blobs.ts';
export { createTransfers } from './blobs/transfers.ts';
export { type AwaitBuild, createAwaitBuild, createBuiltBy, StillBuilding } from './built.ts';
export { createImageFinder, type ImageFinder } from './image-finder.ts';
export { createPullCounter, type PullCounter } from './pull-counter.ts';
export { checkReference, decodeSegment, parsePullPath } from './pull-path.ts';
export { createLookAtRight } from './pull-right.ts';
export { containerSubject, imageName, servedSubjects } from './pull-subject.ts';
export type { PulledImage } from './pulled-image.ts';
export { listingOf } from './pulled-listing.ts';
export { createManifestFinder, type ManifestFinder } from './pulled-manifest.ts';
export { createFindServedBase, createServedBases } from './served-bases.ts';
