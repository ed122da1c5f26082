import '../../../foundation/gated-zlib.ts';
import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { tarEnd } from '../../../archives/tar-writer.ts';
import type { Digest } from '../../../oci/digest.ts';
import { installPackage } from '../../installing/install-package.ts';
import { reformBase } from '../forms/reform-base.ts';
import { reformLayer } from '../forms/reform-layer.ts';
import { readMembers } from '../gzip/gzip-members.ts';
import { LayerOutput, layerEnd, packLayer } from './layer-output.ts';
import type { LayerOrder, MadeLayer, PackageOrder, SharedOrder } from './layer-threads.ts';
import { factsFrom } from './package-facts.ts';
import type { PutPiece } from './piece-ring.ts';
import { serveLayers } from './serve-layers.ts';

serveLayers<LayerOrder>(async (order, put, written) => {
  switch (order.kind) {
    case 'package':
      return packPackage(order, put, written);
    case 'shared':
      return joinLayers(order.layers, put);
    case 'form':
      return reformLayer(order, put);
    case 'base':
      return reformBase(order, put);
    case 'tar': {
      using output = new LayerOutput(put);
      output.write(order.tar);
      const tarDigest = output.end();
      return { tarDigest, tarBytes: output.tarBytes };
    }
  }
});

/**
 * Installs a package as a layer. Throws a `Fault` for an archive that is damaged or harmful, and `LargeArchive` before the
 * first piece.
 *
 * @param written receives how far the layer is, as in `PackageProgress`
 */
function packPackage(
  order: PackageOrder,
  put: PutPiece,
  written?: Float64Array,
): Promise<MadeLayer> {
  const { archive, subject } = order;
  return packLayer(
    order,
    async (output, run) => {
      const options = { ...run, scratch: dirname(archive) };
      return factsFrom(
        await installPackage(archive, subject.package, subject.place, output, options),
      );
    },
    put,
    written,
  );
}

/**
 * Puts layers together as one: each without its end, then one end. Decompresses them for the digest of the tar file
 * only. Blocks the thread while it reads.
 */
function joinLayers(layers: SharedOrder['layers'], put: PutPiece): MadeLayer {
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
