import { type Descriptor, type Document, parseManifest } from '../../oci/index.ts';
import { type ImageChange, layersIn } from './image-change.ts';

/**
 * Returns true for an image of an index that a change leaves as it is because it is for Windows: layers hold files for
 * Linux, and an image for Windows does not start with such a layer.
 */
export function staysForWindows(
  { platform }: Pick<Descriptor, 'platform'>,
  change: ImageChange,
): boolean {
  return platform?.os === 'windows' && layersIn(change).length > 0;
}

/** Returns true for an index with an image that {@link staysForWindows}. */
export function hasImagesForWindows(base: Document, change: ImageChange): boolean {
  const manifest = parseManifest(base);
  return manifest.kind === 'index' && manifest.manifests.some(one => staysForWindows(one, change));
}
