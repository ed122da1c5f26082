/** The tree of a layer, and its compression. */

export { type Compression, compressionIn, decompressing, isDamage } from './read-layer.ts';
export { partsOf } from './tree.ts';
