import type { Descriptor } from '../../../oci/descriptor.ts';
import type { ByteSource } from '../../../storage/content/byte-source.ts';

/** Where the layers of an image are. */
export interface LayerSource {
  /** The lowest one first. */
  readonly layers: readonly Descriptor[];
  /** The bytes of a layer as it is, compressed; called once for each that has no local path. */
  openLayer(layer: Descriptor, signal: AbortSignal): Promise<ByteSource>;
  /** A file with the bytes of a layer, verified before, that is read where it is; undefined for none. */
  localPath?(layer: Descriptor): Promise<string | undefined>;
}
