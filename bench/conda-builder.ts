import { startBuildkitd } from '../test/world/buildkitd.ts';
import { startCondaChannels } from '../test/world/conda-channels.ts';
import { pushCondaImages } from '../test/world/conda-image.ts';
import type { CondaPackage } from '../test/world/conda-package.ts';
import { startRegistry } from '../test/world/registry.ts';
import { startMeasuredSluice } from '../test/world/sluice.ts';
import { packagesOfThisMachine } from './machine-packages.ts';
import type { Part } from './report.ts';
import { median, ratio } from './stats.ts';

const rounds = 2;

interface Times {
  /** Request to finished image, nothing there (ms). */
  readonly first: number;
  /** The same packages and one more. */
  readonly second: number;
}

/** (l) Conda images without a builder, beside the same requests through BuildKit. */
export async function condaBuilder(): Promise<Part[]> {
  const packages = await packagesOfThisMachine();
  const all: Record<'native' | 'buildkit', Times[]> = { native: [], buildkit: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const way of ['native', 'buildkit'] as const) all[way].push(await measure(way, packages));
  }
  const firsts = (way: keyof typeof all) => all[way].map(({ first }) => first);
  const seconds = (way: keyof typeof all) => all[way].map(({ second }) => second);
  const text = (ms: readonly number[]) => `${(median(ms) / 1000).toFixed(2)} s`;
  return [
    {
      letter: 'l',
      title: 'Conda images, 100 packages and 500 MB, without a builder : through BuildKit',
      rows: [
        {
          what: 'nothing there',
          figure: `${(1 / ratio(firsts('native'), firsts('buildkit'))).toFixed(1)} times as fast`,
          aim: 'at least 3',
          medians: `${text(firsts('native'))} : ${text(firsts('buildkit'))}`,
        },
        {
          what: 'all but one package there',
          figure: `${(1 / ratio(seconds('native'), seconds('buildkit'))).toFixed(1)} times as fast`,
          aim: 'at least 20',
          medians: `${text(seconds('native'))} : ${text(seconds('buildkit'))}`,
        },
      ],
    },
  ];
}

/** Requests both environments, on a server, a registry and a builder that have nothing yet. */
async function measure(
  way: 'native' | 'buildkit',
  packages: readonly CondaPackage[],
): Promise<Times> {
  await using registry = await startRegistry();
  await using buildkitd = await startBuildkitd();
  const one: CondaPackage = {
    name: 'one-more',
    version: '1.0',
    files: [{ name: 'share/one-more', content: 'one more\n' }],
  };
  await using served = await startCondaChannels({ bench: [...packages, one] });
  const images = await pushCondaImages(buildkitd.address, registry.host, {
    channelAlias: served.url,
    pipIndex: served.url,
  });
  await using sluice = await startMeasuredSluice({
    config: {
      buildkit: [buildkitd.address],
      builds: { conda: way },
      channels: served.settings,
      limits: { builds: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  const make = async (entries: readonly string[]): Promise<number> => {
    const began = performance.now();
    const condaOpts = {
      baseImage: images.base,
      basePackages: '',
      ...(way === 'buildkit' ? { mambaImage: images.manager } : {}),
    };
    const packagesToInstall = { type: 'CONDA', entries, channels: ['bench'], condaOpts };
    const { buildId } = (await sluice.request({ packages: packagesToInstall })) as unknown as {
      readonly buildId: string;
    };
    const path = `/v1alpha1/builds/${buildId}`;
    const log = await (await sluice.fetch(`${path}/logs?follow=true`)).text();
    const took = performance.now() - began;
    const { succeeded } = (await (await sluice.fetch(`${path}/status`)).json()) as {
      readonly succeeded?: boolean;
    };
    if (succeeded !== true) throw new Error(`The build failed:\n${log}`);
    return took;
  };
  const names = packages.map(({ name }) => name);
  return { first: await make(names), second: await make([...names, one.name]) };
}
