import { createHash } from 'node:crypto';
import { tarEnd } from '../../../archives/tar-writer.ts';
import type { Digest } from '../../../oci/digest.ts';
import { layerEnd } from '../gzip/layer-end.ts';
import { readMembers } from '../gzip/read-members.ts';
import type { MadeLayer, SharedOrder } from './layer-orders.ts';
import type { PutPiece } from './piece-ring.ts';

/**
 * Puts layers together as one: each without its end, then one end. Decompresses them for the digest of the tar file
 * only. Blocks the thread while it reads.
 */
export function joinLayers(layers: SharedOrder['layers'], put: PutPiece): MadeLayer {
  const hash = createHash('sha256');
  let tarBytes = tarEnd.length;
  const end = layerEnd();
  for (const { path, size } of layers) {
    for (const { member, content } of readMembers(path, size - end.length)) {
      tarBytes += content.length;
      hash.update(content);
      put(member);
    }
  }
  hash.update(tarEnd);
  put(end);
  return { tarDigest: `sha256:${hash.digest('hex')}` as Digest, tarBytes };
}
