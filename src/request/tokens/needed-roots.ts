import { hash } from 'node:crypto';
import { layersIn } from '../../images/augment/index.ts';
import type { Digest } from '../../oci/digest.ts';
import type { ContainerRequest, ManifestName } from '../container-request.ts';

/** What must stay for as long as a request lives, with everything that it refers to. */
export interface NeededRoots {
  readonly images: readonly ManifestName[];
  readonly layers: readonly Digest[];
}

/** Half of a SHA-256: each request has it twice, in its row and in an index. */
const keyBytes = 16;

export function neededRoots({
  fixed,
  change,
}: Pick<ContainerRequest, 'fixed' | 'change'>): NeededRoots {
  return {
    images: fixed ? [fixed.served, fixed.base] : [],
    layers: layersIn(change).map(({ gzipDigest }) => gzipDigest),
  };
}

/** Returns the same key for requests that need the same; an empty one for a request that needs nothing. */
export function neededKey({ images, layers }: NeededRoots): Buffer {
  if (images.length === 0 && layers.length === 0) return Buffer.alloc(0);
  const parts = [images.map(({ digest, mediaType }) => [digest, mediaType]), layers];
  return hash('sha256', JSON.stringify(parts), 'buffer').subarray(0, keyBytes);
}
