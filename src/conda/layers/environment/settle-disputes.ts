import { resolveClobbering } from '../../installing/clobbering.ts';
import type { KeptLayers } from '../kept-layers.ts';
import { factsOf, type MakePackage, type PackageLayer } from '../making/package-maker.ts';
import { disputedPaths } from './disputes.ts';

export interface DisputeDeps {
  readonly kept: Pick<KeptLayers, 'paths'>;
  readonly make: MakePackage;
  readonly signal: AbortSignal;
}

/**
 * Returns the layers of an environment in which no two packages have the same path: a package that loses a path to
 * another one gets a layer without it. So the order of the layers does not matter. Which package keeps a path depends on
 * what the packages themselves say they require.
 */
export async function settleDisputes(
  layers: readonly PackageLayer[],
  { kept, make, signal }: DisputeDeps,
): Promise<PackageLayer[]> {
  const disputed = await disputedPaths(layers, ({ key }) => kept.paths(key));
  if (disputed.every(paths => paths.length === 0)) return [...layers];
  const lost = resolveClobbering(
    layers.map((layer, position) => ({
      name: layer.subject.package.name,
      ...{ depends: dependsOf(layer), isNoarch: layer.subject.package.subdir === 'noarch' },
      paths: disputed[position] ?? [],
    })),
  );
  return Promise.all(
    layers.map(async layer => {
      const { package: it, place } = layer.subject;
      const lostPaths = lost.get(it.name.toLowerCase());
      return lostPaths ? make({ package: it, place: { ...place, lostPaths } }, signal) : layer;
    }),
  );
}

/** A lock file does not say it, and repository data changes. */
function dependsOf(layer: PackageLayer): string[] {
  const { depends } = factsOf(layer).index;
  return Array.isArray(depends) ? depends.filter(one => typeof one === 'string') : [];
}
