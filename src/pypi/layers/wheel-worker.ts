import '../../foundation/gated-zlib.ts';
import {
  archiveLimits,
  LayerOutput,
  PathPacker,
  serveLayers,
} from '../../conda/installing/index.ts';
import { installWheel } from '../wheels/install-wheel.ts';
import type { WheelOrder } from './wheel-layer.ts';

/** A wheel may have more files than a Conda package: they take less memory each. */
const filesOfPackage = 4 / 3;

serveLayers<WheelOrder>(async (order, put, written = new Float64Array(2)) => {
  const { subject, archive, limits, isShared = false } = order;
  using output: LayerOutput = new LayerOutput(piece => {
    written[0] = output.tarBytes;
    put(piece);
  });
  const paths = new PathPacker();
  const installed = await installWheel(archive, subject.package, subject.place, output, {
    // The main thread ends this one when nobody waits for the layer.
    signal: new AbortController().signal,
    isShared,
    onPath: path => paths.add(path),
    onSize: bytes => {
      written[1] = bytes;
    },
    limits: {
      ...archiveLimits,
      unpackedBytes: limits.maxUnpackedBytes,
      entries: Math.round(limits.maxFiles * filesOfPackage),
    },
  });
  const tarDigest = output.end();
  return {
    tarDigest,
    tarBytes: output.tarBytes,
    about: {
      facts: JSON.stringify(installed),
      pathHashes: paths.hashes(),
      paths: paths.paths(),
    },
  };
});
