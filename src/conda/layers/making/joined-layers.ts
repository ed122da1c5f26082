import { Fault } from '../../../foundation/fault.ts';
import { SingleFlight } from '../../../foundation/single-flight.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import type { PackageLayerRow } from '../../../storage/rows/index.ts';
import type { KeptLayers } from '../kept-layers.ts';
import { sharedLayerKey } from '../layer-key.ts';

/** Returns one layer with the files of several. Throws a {@link Fault} when one of them is gone. */
export type JoinLayers = (
  layers: readonly PackageLayerRow[],
  signal: AbortSignal,
) => Promise<PackageLayerRow>;

export function createJoiner(
  kept: Pick<KeptLayers, 'use' | 'make'>,
  content: Pick<ContentStore, 'lease'>,
): JoinLayers {
  const joining = new SingleFlight<PackageLayerRow>();

  const join = async (
    key: string,
    layers: readonly PackageLayerRow[],
    signal: AbortSignal,
  ): Promise<PackageLayerRow> => {
    await using leases = new AsyncDisposableStack();
    const files: { path: string; size: number }[] = [];
    for (const { digest, size } of layers) {
      const file = await content.lease(digest);
      if (!file) throw goneMeanwhile();
      files.push({ path: leases.use(file).path, size });
    }
    return kept.make(key, { kind: 'shared', layers: files }, signal);
  };

  return async (layers, signal) => {
    const [alone] = layers;
    if (alone && layers.length === 1) return alone;
    const key = sharedLayerKey(layers.map(({ digest }) => digest));
    return (await kept.use(key)) ?? joining.run(stop => join(key, layers, stop), { key, signal });
  };
}

function goneMeanwhile(): Fault {
  return new Fault('unavailable', 'The layer of a package is damaged or gone: try again', {
    phase: 'layer',
    retryAfterSeconds: 1,
  });
}
