/** Changes of images: config, manifest and index rewritten. */

export { type AugmentedImage, augment, augmentInSteps } from './augment.ts';
export { envName } from './env.ts';
export {
  changesIn,
  type ImageChange,
  type InjectedLayer,
  isUnchanged,
  type LayeredConfig,
  layersIn,
  ofBase,
} from './image-change.ts';
export { architectureOf, environmentIn, triggersIn } from './image-config.ts';
export { hasImagesForWindows } from './windows-images.ts';
export { pointTo } from './written-descriptor.ts';
