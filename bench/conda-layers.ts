import { readFileSync, statSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startCondaChannels } from '../test/world/conda-channels.ts';
import { type CondaPackage, nativeSubdir } from '../test/world/conda-package.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { requireConda } from '../test/world/tools.ts';
import type { MakerOrder, MakerReport } from './peers/layer-maker.ts';
import { makeLayers, runOrder, solvedPackage } from './peers/run-order.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 3;
const packageCount = 100;
const totalBytes = 500e6;
const largestFile = 40e6;

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
          ...{
            channel,
            names: packages.map(({ name }) => name),
            subdirs: [nativeSubdir, 'noarch'],
          },
          ...{ target: directory.join(`prefix-${round}`), cache: directory.join(`cache-${round}`) },
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

/** Packages of programs, libraries and texts that are on this machine, with the long tail of sizes of a channel. */
async function packagesOfThisMachine(): Promise<CondaPackage[]> {
  const files = glob(['/usr/lib/**', '/usr/share/**'], { withFileTypes: false });
  const weights = Array.from({ length: packageCount }, (_, at) => 1 / (at + 2));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const packages: CondaPackage[] = [];
  let own: { name: string; content: Buffer }[] = [];
  let bytes = 0;
  for await (const path of files) {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (!stat?.isFile() || stat.size === 0 || stat.size > largestFile) continue;
    own.push({ name: `lib/p${packages.length}${path}`, content: readFileSync(path) });
    bytes += stat.size;
    if (bytes < (totalBytes * (weights[packages.length] ?? 0)) / sum) continue;
    packages.push({ name: `package-${packages.length}`, version: '1.0', files: own });
    own = [];
    bytes = 0;
    if (packages.length === packageCount) break;
  }
  return packages;
}
