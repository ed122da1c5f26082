import type { Descriptor } from '../../../oci/index.ts';
import type { ByteSource } from '../../../storage/content/byte-source.ts';

/** Gives access to the layers of an image. */
export interface LayerSource {
  /** Lowest layer first. */
  readonly layers: readonly Descriptor[];
  /** Returns the compressed bytes of a layer. Called once for each layer without a local path. */
  openLayer(layer: Descriptor, signal: AbortSignal): Promise<ByteSource>;
  /** Returns the path of a verified file with the bytes of a layer, to be read in place; undefined for none. */
  localPath?(layer: Descriptor): Promise<string | undefined>;
}
