import { bareMediaType, isLayerType } from '../../../oci/media-type.ts';
import { layerFault } from './file.ts';

/**
 * Throws a {@link Fault} unless a layer of this media type can be converted: it must be a tar file
 * that is part of the image. The compression is detected when the layer is read.
 *
 * @param name name of the layer in messages
 */
export function checkLayerType(mediaType: string, name: string): void {
  const type = bareMediaType(mediaType) ?? '';
  if (!isLayerType(type)) {
    const shown = JSON.stringify(mediaType.slice(0, 100));
    throw layerFault(
      'bad-request',
      { name },
      `has the type ${shown}, which is not a layer of files`,
    );
  }
  if (/\bforeign\b|\bnondistributable\b/.test(type)) {
    const problem = 'may not be distributed, and is not part of the image: use an image without it';
    throw layerFault('bad-request', { name }, problem);
  }
  if (type.includes('encrypted')) {
    throw layerFault('bad-request', { name }, 'is encrypted: use an image that is not');
  }
}
