import {
  type OrderedPackage,
  type PathsOfPackage,
  resolveClobbering,
} from '../../installing/clobbering.ts';
import { pathHashBytes, unpackPaths } from '../making/package-facts.ts';

/** A package of an environment, as far as its paths may also be those of another one. Plain data, for a thread. */
export interface Rival extends OrderedPackage {
  /** Hashes of its paths, as a `PathPacker` has made them. */
  readonly pathHashes: Uint8Array;
  /** Its packed paths. Only a package with a disputed path requires them. */
  readonly packed?: Uint8Array | undefined;
}

/** Lost paths of each package that loses any; or `tooMany`, the two packages that have the most disputed paths. */
export type LostPaths =
  | {
      /** To packages of the same tier. */
      readonly lost: readonly (readonly [name: string, paths: readonly string[]])[];
      /** To packages of a higher tier, whose layers lie above: how many, and the first one. */
      readonly covered: readonly (readonly [name: string, count: number, first: string])[];
    }
  | { readonly tooMany: readonly string[] };

/** Lost paths of an environment: they are part of the keys of layers, and pass through the main thread. */
const mostLostPaths = 50_000;

/**
 * Paths of an environment that can be compared; the largest environments have a third. On the thread they take about 80 bytes
 * each.
 */
export const mostPaths = 500_000;

/** Returns the number of hashes: about 400 ns each are needed to compare them. */
export function hashCount(rivals: readonly Pick<Rival, 'pathHashes'>[]): number {
  return rivals.reduce((sum, { pathHashes }) => sum + pathHashes.length, 0) / pathHashBytes;
}

/** Returns the positions of the packages that have a path which another one may have also, as a file or as a directory. */
export function rivalsAmong(all: readonly Pick<Rival, 'pathHashes'>[]): number[] {
  return [...disputesOf(all).parties].sort((one, other) => one - other);
}

/**
 * Returns the paths that packages lose to others, sorted, as {@link resolveClobbering} decides. Names are in lower case.
 * Unpacks the paths of one package at a time.
 *
 * @param all the same packages as before; those of {@link rivalsAmong} have their packed paths
 */
export function lostPathsOf(all: readonly Rival[]): LostPaths {
  const { disputed, parties } = disputesOf(all);
  const names = new Set<string>();
  for (const position of parties) {
    const paths = pathsOf(all[position]);
    eachHash(all[position], (hash, isDirectory, at) => {
      if (!isDirectory && disputed.has(hash)) names.add(paths[at] ?? '');
    });
  }
  const counts = new Map<string, number>();
  let count = 0;
  const packages = all.map((one, position) => {
    const { name, depends, isNoarch, tier = 0 } = one;
    if (!parties.has(position)) return { name, depends, isNoarch, tier, paths: [] };
    const paths = pathsOf(one).filter(path => isBelow(path, names));
    count += paths.length;
    counts.set(name, paths.length);
    // More are not needed to know that they are too many.
    return { name, depends, isNoarch, tier, paths: count > 2 * mostLostPaths ? [] : paths };
  });
  const tiers = [...new Set(packages.map(({ tier }) => tier))];
  const lost =
    count > 2 * mostLostPaths
      ? []
      : tiers.flatMap(tier => [...resolveClobbering(packages.filter(one => one.tier === tier))]);
  const lostCount = lost.reduce((sum, [, paths]) => sum + paths.length, 0);
  if (count <= 2 * mostLostPaths && lostCount <= mostLostPaths) {
    return { lost, covered: tiers.length > 1 ? coveredAmong(packages, new Map(lost)) : [] };
  }
  const sorted = [...counts].sort(([, one], [, other]) => other - one);
  return { tooMany: sorted.slice(0, 2).map(([name]) => name) };
}

/** @param lost paths that are not in the layers */
function coveredAmong(
  packages: readonly PathsOfPackage[],
  lost: ReadonlyMap<string, readonly string[]>,
): [name: string, count: number, first: string][] {
  return [...resolveClobbering(packages)].flatMap(([name, paths]) => {
    const gone = new Set(lost.get(name));
    const [first, ...rest] = paths.filter(path => !gone.has(path));
    return first === undefined ? [] : [[name, rest.length + 1, first]];
  });
}

function disputesOf(all: readonly Pick<Rival, 'pathHashes'>[]) {
  // The first package with each hash. The keys are texts: V8 hashes them otherwise in each process, so nobody can choose
  // paths that collide.
  const owners = new Map<string, number>();
  const disputed = new Set<string>();
  const parties = new Set<number>();
  const dispute = (hash: string, ...positions: readonly number[]) => {
    disputed.add(hash);
    for (const position of positions) parties.add(position);
  };
  for (const [position, one] of all.entries()) {
    eachHash(one, (hash, isDirectory) => {
      if (isDirectory) return;
      const owner = owners.get(hash);
      if (owner === undefined) owners.set(hash, position);
      else if (owner !== position) dispute(hash, owner, position);
    });
  }
  for (const [position, one] of all.entries()) {
    eachHash(one, (hash, isDirectory) => {
      const owner = isDirectory ? owners.get(hash) : undefined;
      if (owner !== undefined && owner !== position) dispute(hash, owner, position);
    });
  }
  return { disputed, parties };
}

function pathsOf(one: Pick<Rival, 'packed'> | undefined): readonly string[] {
  return one?.packed ? unpackPaths(one.packed) : [];
}

/** True for a path in the set, and for one below it. */
function isBelow(path: string, names: ReadonlySet<string>): boolean {
  if (names.has(path)) return true;
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
    if (names.has(path.slice(0, at))) return true;
  }
  return false;
}

/** Calls a function for each hash of a package, as a text of six characters, in the order in which they are kept. */
function eachHash(
  one: Pick<Rival, 'pathHashes'> | undefined,
  take: (hash: string, isDirectory: boolean, at: number) => void,
): void {
  const hashes = Buffer.from(one?.pathHashes ?? []);
  for (let start = 0; start < hashes.length; start += pathHashBytes) {
    const end = start + pathHashBytes;
    const lastByte = hashes[end - 1] ?? 0;
    hashes[end - 1] = lastByte & 0xfe;
    take(hashes.toString('latin1', start, end), lastByte % 2 === 1, start / pathHashBytes);
  }
}
