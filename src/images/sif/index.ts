/** Singularity images in registries. */

export { sifConfig, sifLayerType, sifManifest } from './format/oras.ts';
export { readSif } from './format/read-sif.ts';
export type { LayerSource } from './layers/source.ts';
export { checkLayerType } from './layers/type.ts';
export type { ConvertLimits } from './limits.ts';
