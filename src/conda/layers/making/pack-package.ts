import { dirname } from 'node:path';
import { archiveLimits } from '../../archives/archive-limits.ts';
import { installPackage } from '../../installing/install-package.ts';
import type { MadeLayer, PackageOrder } from './layer-orders.ts';
import { LayerOutput } from './layer-output.ts';
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
