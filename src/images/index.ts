/** Images in memory, on the disk and at their registries: resolved, verified, made, published. */

export { type Attach, createAttach, createNoteByTag } from './attach.ts';
export { type BaseResolver, createBaseResolver, selectImage } from './bases/base-image.ts';
export { imageLeaves, type LeafSource } from './bases/image-leaves.ts';
export { createLayerProofs, type ProvedLayer } from './bases/layer-proofs.ts';
export {
  createVerifyImage,
  type ImageToVerify,
  type VerifiedImage,
  type VerifyImage,
} from './bases/verified-image.ts';
export {
  createDocuments,
  type Documents,
  deepestIndex,
  imageConfig,
  mostBytes,
  mostManifests,
} from './documents.ts';
export { createImageMaker, type ImageMaker, type MadeImage } from './image-maker.ts';
export { createMirror, type Mirror } from './mirror.ts';
export {
  blobsOf,
  createPublish,
  type MadeBlobs,
  type MadeOf,
  type Publish,
  type PushedLayers,
} from './publish.ts';
export { createRightWatch, type RightWatch, rightGraceMs } from './right-watch.ts';
