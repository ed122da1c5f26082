import '../../foundation/gated-zlib.ts';
import { packLayer, serveLayers } from '../../conda/installing/index.ts';
import { installWheel } from '../wheels/install-wheel.ts';
import type { WheelOrder } from './wheel-layer.ts';

/** A wheel may have more files than a Conda package: they take less memory each. */
const filesOfPackage = 4 / 3;

serveLayers<WheelOrder>((order, put, written) => {
  const { archive, subject } = order;
  return packLayer(
    order,
    (output, run) => {
      const entries = Math.round(run.limits.entries * filesOfPackage);
      const options = { ...run, limits: { ...run.limits, entries } };
      return installWheel(archive, subject.package, subject.place, output, options);
    },
    put,
    written,
  );
});
