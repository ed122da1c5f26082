/** Makes Singularity images, and images of them; it loads all that writes them. */

export { baseOfSif } from './base/base-of-sif.ts';
export { type ConvertedSif, convertToSif } from './convert.ts';
export { fetchLayer } from './layers/fetch.ts';
export { createScratchSpace, type ScratchSpace } from './scratch-space.ts';
