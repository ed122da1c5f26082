import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { tarEnd } from '../../../archives/tar-writer.ts';
import type { Digest } from '../../../oci/digest.ts';
import { archiveLimits } from '../../archives/archive-checks.ts';
import { installPackage } from '../../installing/install-package.ts';
import { readMembers } from '../gzip/gzip-members.ts';
import { LayerOutput, layerEnd } from './layer-output.ts';
import type { MadeLayer, PackageOrder, SharedOrder } from './layer-threads.ts';
import { factsFrom, PathPacker } from './package-facts.ts';
import type { PutPiece } from './piece-ring.ts';

/**
 * Installs a package as a layer. Throws a `Fault` for an archive that is damaged or harmful, and `LargeArchive` before the
 * first piece.
 *
 * @param written receives how far the layer is, as in `PackageProgress`
 */
export async function packPackage(
  { subject, archive, limits, isShared = false }: PackageOrder,
  put: PutPiece,
  written: Float64Array = new Float64Array(2),
): Promise<MadeLayer> {
  using output: LayerOutput = new LayerOutput(piece => {
    written[0] = output.tarBytes;
    put(piece);
  });
  const paths = new PathPacker();
  const installed = await installPackage(archive, subject.package, subject.place, output, {
    // The main thread ends this one when nobody waits for the layer.
    signal: new AbortController().signal,
    scratch: dirname(archive),
    isShared,
    onPath: path => paths.add(path),
    onSize: bytes => {
      written[1] = bytes;
    },
    limits: {
      ...archiveLimits,
      unpackedBytes: limits.maxUnpackedBytes,
      entries: limits.maxFiles,
    },
  });
  const tarDigest = output.end();
  return {
    tarDigest,
    tarBytes: output.tarBytes,
    about: {
      facts: JSON.stringify(factsFrom(installed)),
      pathHashes: paths.hashes(),
      paths: paths.paths(),
    },
  };
}

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
