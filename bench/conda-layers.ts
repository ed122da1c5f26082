import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startCondaChannels } from '../test/world/conda-channels.ts';
import { nativeSubdir } from '../test/world/conda-package.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { requireConda } from '../test/world/tools.ts';
import { packagesOfThisMachine } from './machine-packages.ts';
import type { MakerOrder, MakerReport } from './peers/layer-maker.ts';
import { makeLayers, runOrder, solvedPackage } from './peers/run-order.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 3;

/** (i) The layers of an environment of 100 packages and 500 MB, beside rattler's installation, tar and gzip. */
export async function condaLayers(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  const packages = await packagesOfThisMachine();
  await using channels = await startCondaChannels({ bench: packages });
  const channel = `${channels.url}/bench`;
  const solved = await Promise.all(packages.map(one => solvedPackage(channel, one)));
  const sizes = { ours: 0, theirs: 0, memory: 0 };
  let round = 0;
  const make = async (data: string): Promise<MakerReport> => {
    const order: MakerOrder = { channel, data, environments: [solved] };
    return makeLayers(order);
  };
  const times = await interleave(
    {
      async nothingThere() {
        round += 1;
        const { ms, layerBytes, residentBytes } = await make(directory.join(`data-${round}`));
        sizes.ours = layerBytes;
        sizes.memory = Math.max(sizes.memory, residentBytes);
        return ms;
      },
      everythingThere: async () => (await make(directory.join(`data-${round}`))).ms,
      async rattler() {
        const order = {
          channel,
          names: packages.map(({ name }) => name),
          subdirs: [nativeSubdir, 'noarch'],
          target: directory.join(`prefix-${round}`),
          cache: directory.join(`cache-${round}`),
        };
        const program = fileURLToPath(new URL('peers/rattler-install.py', import.meta.url));
        const env = { ...process.env, PYTHONPATH: join(requireConda(), 'rattler') };
        const report = JSON.parse(await runOrder('python3', [program], order, env));
        sizes.theirs = report.layerBytes;
        return report.ms;
      },
    },
    rounds,
  );
  const seconds = (ms: readonly number[]) => `${(median(ms) / 1000).toFixed(2)} s`;
  const megabytes = (bytes: number) => `${Math.round(bytes / 1e6)} MB`;
  return [
    {
      letter: 'i',
      title: 'Layers of conda packages, 100 packages and 500 MB',
      rows: [
        {
          what: 'nothing there: fetched, installed and packed, beside `rattler install`, tar and gzip',
          figure: `${ratio(times.nothingThere, times.rattler).toFixed(2)} x`,
          aim: 'at most 1',
          medians: `${seconds(times.nothingThere)} and ${megabytes(sizes.ours)}, beside ${seconds(times.rattler)} and ${megabytes(sizes.theirs)}`,
        },
        {
          what: 'everything there',
          figure: `${Math.round(median(times.everythingThere))} ms`,
          aim: 'at most 300 ms with all else',
          medians: 'in a process that has just started',
        },
        {
          what: 'resident memory with two threads',
          figure: `${Math.round(sizes.memory / 2 ** 20)} MiB`,
          aim: 'at most 300 MiB',
          medians: '',
        },
      ],
    },
  ];
}
