import type { PackageLayerRow } from '../../storage/rows/images/package-layer-rows.ts';
import type { CondaPackage } from '../conda-package.ts';
import type { PackageLayer } from './making/package-maker.ts';

/** Text for the log of a build: a line for each package that was fetched, and a summary. */
export interface LayerLog {
  made(layer: PackageLayer, tookMs: number): void;
  end(layers: readonly PackageLayerRow[]): void;
}

export function createLayerLog(
  packages: readonly CondaPackage[],
  log: (text: string) => void,
): LayerLog {
  const began = performance.now();
  let fetched = 0;
  let fetchedBytes = 0;
  return {
    made({ subject, fetchedBytes: bytes }, tookMs) {
      if (bytes === undefined) return;
      fetched += 1;
      fetchedBytes += bytes;
      const { name, version, build } = subject.package;
      log(`${name} ${version} ${build}: ${megabytes(bytes)} in ${seconds(tookMs)}\n`);
    },
    end(layers) {
      const bytes = layers.reduce((sum, { size }) => sum + size, 0);
      const share =
        fetched === 0
          ? 'all of them were here'
          : `${fetched} were fetched, ${megabytes(fetchedBytes)}`;
      log(
        `${packages.length} packages, ${share}; ${layers.length} layers, ${megabytes(bytes)}, in ${seconds(performance.now() - began)}\n`,
      );
    },
  };
}

function megabytes(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
