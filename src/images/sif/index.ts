/** Singularity images in registries. */

export type { ConvertLimits } from './conversion-limits.ts';
export { sifConfig, sifLayerType, sifManifest } from './format/oras.ts';
export { readSif } from './format/read-sif.ts';
export type { LayerSource } from './layers/gather.ts';
export { checkLayerType } from './layers/read-layer.ts';
