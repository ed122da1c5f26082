import { Fault } from '../../../foundation/fault.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { isOutOfMemory } from '../../../foundation/threads.ts';
import type { OrderedPackage } from '../../installing/clobbering.ts';
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

/** The layer of a package of any kind, and what its place in the order of installation depends on. */
export interface DisputeParty<L extends SettledLayer>
  extends Pick<OrderedPackage, 'isNoarch' | 'tier'> {
  readonly layer: L;
  /** In lower case; the only one of its name. */
  readonly name: string;
  /** Returns the specifications of the packages that it requires. */
  readonly depends: () => string[];
  /** Makes the layer again, without paths that others keep. */
  readonly remake: (lostPaths: readonly string[]) => Promise<L>;
}

type SettledLayer = Pick<PackageLayer, 'key' | 'pathHashes'>;

/** Layers, and what is to be said about them. */
export interface SettledLayers<L> {
  readonly layers: L[];
  /** Sentences about packages whose files others replace. */
  readonly replaced: readonly string[];
}

/** Paths that are compared in one turn of the event loop, about 10 ms; more on another thread. */
const mostHere = 50_000;
/** A requirement takes as long as so many paths, in a circle of packages. */
const pathsOfRequirement = 10;

/**
 * Returns the layers of an environment in which no two packages of one tier have the same path: a package that loses a path to
 * another one gets a layer without it. So the order of their layers does not matter. Which package keeps a path depends on
 * what the packages themselves say they require. Throws a {@link Fault} for packages with too many paths in common.
 *
 * @param kept returns the paths of packages
 */
export async function settleDisputes<L extends SettledLayer>(
  parties: readonly DisputeParty<L>[],
  kept: Pick<KeptLayers, 'paths'>,
): Promise<SettledLayers<L>> {
  const all = parties.map(
    ({ layer, name, isNoarch, tier }): Rival => ({
      name,
      depends: [],
      isNoarch,
      tier,
      pathHashes: layer.pathHashes ?? nothing,
    }),
  );
  const layers = parties.map(({ layer }) => layer);
  await pauseTurn();
  const positions = hashCount(all) <= mostHere ? rivalsAmong(all) : await askThread('rivals', all);
  if (positions.length === 0) return { layers, replaced: [] };
  for (const [position, { depends }] of parties.entries()) {
    all[position] = { ...(all[position] as Rival), depends: depends() };
    await pauseTurn();
  }
  const rivals = positions.map(position => all[position] as Rival);
  for (const position of positions) {
    const { key } = layers[position] as L;
    all[position] = { ...(all[position] as Rival), packed: await kept.paths(key) };
  }
  await pauseTurn();
  const required = all.reduce((sum, { depends }) => sum + depends.length, 0);
  const isShort = hashCount(rivals) + required * pathsOfRequirement <= mostHere;
  const response = isShort ? lostPathsOf(all) : await askThread('lost', all);
  if ('tooMany' in response) throw tooMany(response.tooMany);
  const lost = new Map(response.lost);
  const settled: Promise<L>[] = [];
  for (const { layer, name, remake } of parties) {
    const lostPaths = lost.get(name);
    const made = lostPaths ? remake(lostPaths) : Promise.resolve(layer);
    // One that fails before the last one begins must not end the process.
    made.catch(() => undefined);
    settled.push(made);
    await pauseTurn();
  }
  const covered = [
    ...response.lost.map(([name, paths]) => [name, paths.length, paths[0]] as const),
    ...response.covered,
  ];
  return {
    layers: await Promise.all(settled),
    replaced: covered.map(
      ([name, count, first]) =>
        `${name}: packages that are installed later replace ${count === 1 ? first : `${count} of its files, such as ${first}`}`,
    ),
  };
}

/** Returns the layer of a Conda package as a party. */
export function packageParty(
  layer: PackageLayer,
  make: MakePackage,
  signal: AbortSignal,
): DisputeParty<PackageLayer> {
  const { package: it, place } = layer.subject;
  return {
    layer,
    name: it.name.toLowerCase(),
    isNoarch: it.subdir === 'noarch',
    depends: () => dependsOf(layer),
    remake: lostPaths => make({ package: it, place: { ...place, lostPaths } }, signal),
  };
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
    if (!isOutOfMemory(error)) throw error;
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
