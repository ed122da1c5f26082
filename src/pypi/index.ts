/** Python packages as layers, beside the packages of Conda. */

export {
  createMixedLayers,
  type LayeredEnvironment,
  type LayeredWheel,
  type MixedEnvironment,
  type MixedLayers,
} from './layers/environment-layers.ts';
export { createWheelThreads } from './layers/wheel-threads.ts';
export { projectName, type WheelFile } from './wheel-file.ts';
