/** Changes of images: config, manifest and index rewritten. */

export {
  type AugmentedImage,
  augment,
  augmentInSteps,
  hasImagesForWindows,
  pointTo,
} from './augment.ts';
export { estargzAnnotations, estargzAnnotationsIn } from './estargz-annotations.ts';
export {
  architectureOf,
  changesIn,
  environmentIn,
  envName,
  type ImageChange,
  type InjectedLayer,
  isUnchanged,
  type LayeredConfig,
  layersIn,
  ofBase,
  triggersIn,
} from './image-config.ts';
export { leaveOutLayers } from './leave-out-layers.ts';
export { type ReplacingLayer, replaceLayers } from './replace-layers.ts';
