import { Fault } from '../../../foundation/fault.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { runTask } from '../../threads/one-task.ts';
import { inRoom, threadNeeds } from '../../threads/thread-room.ts';
import type { KeptLayers } from '../kept-layers.ts';
import { factsOf, type MakePackage, type PackageLayer } from '../making/package-maker.ts';
import type { DisputeOrder } from './dispute-worker.ts';
import {
  hashCount,
  type LostPaths,
  lostPathsOf,
  mostPaths,
  type Rival,
  rivalsAmong,
} from './disputes.ts';

export interface DisputeDeps {
  readonly kept: Pick<KeptLayers, 'paths'>;
  readonly make: MakePackage;
  readonly signal: AbortSignal;
}

/** Paths that are compared in one turn of the event loop, about 10 ms; more on another thread. */
const mostHere = 50_000;
/** A requirement takes as long as so many paths, in a circle of packages. */
const pathsOfRequirement = 10;

/**
 * Returns the layers of an environment in which no two packages have the same path: a package that loses a path to
 * another one gets a layer without it. So the order of the layers does not matter. Which package keeps a path depends on
 * what the packages themselves say they require. Throws a {@link Fault} for packages with too many paths in common.
 */
export async function settleDisputes(
  layers: readonly PackageLayer[],
  { kept, make, signal }: DisputeDeps,
): Promise<PackageLayer[]> {
  const all = layers.map(
    (layer): Rival => ({
      name: layer.subject.package.name.toLowerCase(),
      depends: [],
      isNoarch: layer.subject.package.subdir === 'noarch',
      pathHashes: layer.pathHashes ?? nothing,
    }),
  );
  await pauseTurn();
  const positions = hashCount(all) <= mostHere ? rivalsAmong(all) : await askThread('rivals', all);
  if (positions.length === 0) return [...layers];
  for (const [position, layer] of layers.entries()) {
    all[position] = { ...(all[position] as Rival), depends: dependsOf(layer) };
    await pauseTurn();
  }
  const rivals = positions.map(position => all[position] as Rival);
  for (const position of positions) {
    const { key } = layers[position] as PackageLayer;
    all[position] = { ...(all[position] as Rival), packed: await kept.paths(key) };
  }
  await pauseTurn();
  const required = all.reduce((sum, { depends }) => sum + depends.length, 0);
  const isShort = hashCount(rivals) + required * pathsOfRequirement <= mostHere;
  const response = isShort ? lostPathsOf(all) : await askThread('lost', all);
  if ('tooMany' in response) throw tooMany(response.tooMany);
  const lost = new Map(response.lost);
  const settled: Promise<PackageLayer>[] = [];
  for (const layer of layers) {
    const { package: it, place } = layer.subject;
    const lostPaths = lost.get(it.name.toLowerCase());
    const made = lostPaths
      ? make({ package: it, place: { ...place, lostPaths } }, signal)
      : Promise.resolve(layer);
    // One that fails before the last one begins must not end the process.
    made.catch(() => undefined);
    settled.push(made);
    await pauseTurn();
  }
  return Promise.all(settled);
}

const nothing = new Uint8Array();

function askThread(ask: 'rivals', packages: readonly Rival[]): Promise<readonly number[]>;
function askThread(ask: 'lost', packages: readonly Rival[]): Promise<LostPaths>;
async function askThread(ask: DisputeOrder['ask'], packages: readonly Rival[]): Promise<unknown> {
  const worker = new URL('./dispute-worker.ts', import.meta.url);
  const order: DisputeOrder = { ask, packages };
  if (hashCount(packages) > mostPaths) throw tooManyFiles(undefined);
  try {
    return await inRoom(threadNeeds.disputes, () => runTask(worker, order));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error;
    throw tooManyFiles(error);
  }
}

function tooManyFiles(cause: unknown): Fault {
  return new Fault(
    'bad-request',
    'The packages of the environment have too many files to compare them: request fewer packages',
    { phase: 'layer', cause },
  );
}

function tooMany(names: readonly string[]): Fault {
  return new Fault(
    'bad-request',
    `The packages ${names.join(' and ')} install very many files at the same paths: request only one of them`,
    { phase: 'layer' },
  );
}

/** A lock file does not say it, and repository data changes. */
function dependsOf(layer: PackageLayer): string[] {
  const { depends } = factsOf(layer).index;
  return Array.isArray(depends) ? depends.filter(one => typeof one === 'string') : [];
}
