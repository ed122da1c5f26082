import type { CondaPackage as SolvedPackage } from '../src/conda/conda-package.ts';
import { startCondaChannels } from '../test/world/conda-channels.ts';
import type { CondaPackage } from '../test/world/conda-package.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { environments as names } from './conda-environments.ts';
import type { MadeLayer } from './peers/layer-maker.ts';
import { makeLayers, solvedPackage } from './peers/run-order.ts';
import type { Part } from './report.ts';

/** (j) What 20 real environments share, beside one layer for each environment. */
export async function condaSharing(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  const random = seeded(1);
  const all = [...new Set(names.flat())].sort();
  const packages = all.map(name => packageOf(name, random));
  await using channels = await startCondaChannels({ bench: packages });
  const channel = `${channels.url}/bench`;
  const solved = new Map<string, SolvedPackage>();
  for (const one of packages) solved.set(one.name, await solvedPackage(channel, one));
  const environments = names.map(own => own.map(name => solved.get(name) as SolvedPackage));
  const made = await makeLayers({ channel, data: directory.join('data'), environments });
  const alone = sum(made.environments.flat());
  const archives = sum(environments.flat().map(archiveOf));
  const once = sum([...new Set(environments.flat())].map(archiveOf));
  const row = (what: string, bytes: number, aim: string) => ({
    what,
    aim,
    figure: (bytes / alone).toFixed(2),
    medians: `${megabytes(bytes)} : ${megabytes(alone)}`,
  });
  return [
    {
      letter: 'j',
      title:
        '20 real environments of 5 to 150 conda packages, beside one layer for each environment',
      rows: [
        row('bytes stored', made.layerBytes, 'at most 0.33'),
        row('bytes pulled, all 20, by containerd or podman', made.layerBytes, 'at most 0.33'),
        row(
          "bytes pulled, all 20, by Docker's classic store",
          sum(chained(made.environments)),
          'at most 0.33',
        ),
        {
          what: 'archives of all packages, each once: what no division into layers can go below',
          figure: (once / archives).toFixed(2),
          aim: '',
          medians: `${megabytes(once)} : ${megabytes(archives)}`,
        },
      ],
    },
  ];
}

/** Returns the layers that a store fetches which knows a layer only together with all layers below it. */
function chained(environments: readonly (readonly MadeLayer[])[]): MadeLayer[] {
  const known = new Set<string>();
  return environments.flatMap(layers =>
    layers.filter((_, at) => {
      const chain = layers
        .slice(0, at + 1)
        .map(({ digest }) => digest)
        .join(' ');
      if (known.has(chain)) return false;
      known.add(chain);
      return true;
    }),
  );
}

/**
 * A package of the long tail of sizes, whatever its name: half of them below 30 kB, some of several megabytes, as the real
 * ones are spread with a sixth of their size. Large packages are neither more common than small ones nor rarer: that is
 * assumed, since no list of the sizes of all these packages is at hand. So the archives once are 0.27 of all on average, 328
 * names of 1204; with 400 other seeds they are 0.19 to 0.37, in the middle 0.28.
 *
 * Docker's classic store shares the beginning of a chain only. The order of names that a search found for these very
 * environments and sizes, which no server knows beforehand, has 0.37 to 0.67 of all with nine seeds, in the middle 0.49;
 * sorted by how often these environments have them, 0.51 to 0.81. Another order would give every image another digest.
 */
function packageOf(name: string, random: () => number): CondaPackage {
  const size = Math.round(30_000 * Math.exp(1.8 * normal(random)));
  const content = Buffer.alloc(Math.min(size, 8_000_000));
  // About as compressible as programs.
  for (let at = 0; at < content.length; at += 1) content[at] = Math.floor(random() ** 3 * 256);
  return { name, version: '1.0', files: [{ name: `share/${name}/content`, content }] };
}

function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** Numbers from 0 to 1, the same at every run. Source: Park and Miller, minimal standard generator. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 0x7fffffff;
    return state / 0x7fffffff;
  };
}

function archiveOf({ size = 0 }: SolvedPackage) {
  return { size };
}

function sum(layers: readonly Pick<MadeLayer, 'size'>[]): number {
  return layers.reduce((total, { size }) => total + size, 0);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
