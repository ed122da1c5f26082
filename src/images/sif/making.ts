/** Makes Singularity images, and images of them; it loads all that writes them. */

export { baseOfSif } from './base-of-sif.ts';
export { createScratchSpace, type ScratchSpace } from './conversion-limits.ts';
export { type ConvertedSif, convertToSif } from './convert.ts';
export { fetchLayer } from './layers/gather.ts';
