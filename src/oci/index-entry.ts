import type { Descriptor } from './descriptor.ts';
import { isIndexType, isManifestType } from './media-type.ts';
import { isAttestation } from './platform.ts';

/**
 * True for an entry of an index that may stand for an image or for an index of images. One of an
 * unknown type does not, even where another entry calls the same content an image.
 */
export function mayBeImage(entry: Descriptor): boolean {
  return !isAttestation(entry) && (isManifestType(entry.mediaType) || isIndexType(entry.mediaType));
}
