/** The tree of a layer, and its compression. */

export { partsOf } from './tree.ts';
export { type Compression, compressionIn, decompressing, isDamage } from './unpack.ts';
