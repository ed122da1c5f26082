import { pauseTurn } from '../../../foundation/pause-turn.ts';
import type { PackageLayerRow } from '../../../storage/rows/images/package-layer-rows.ts';
import { pathHashBytes, unpackPaths } from '../making/package-facts.ts';

type Hashed = Pick<PackageLayerRow, 'pathHashes'>;

/**
 * Returns the paths of each package that another one may have also, as a file or as a directory; and those below them.
 * Empty lists when nothing is disputed, which takes some milliseconds for 30,000 paths. Rests in between.
 *
 * @param pathsOf reads the packed paths of a package
 */
export async function disputedPaths<P extends Hashed>(
  packages: readonly P[],
  pathsOf: (one: P) => Promise<Uint8Array | undefined>,
): Promise<string[][]> {
  const owners = new Map<number, number>();
  const disputed = new Set<number>();
  const parties = new Set<number>();
  const dispute = (hash: number, ...positions: readonly number[]) => {
    disputed.add(hash);
    for (const position of positions) parties.add(position);
  };
  for (const [position, one] of packages.entries()) {
    eachHash(one, (hash, isDirectory) => {
      if (isDirectory) return;
      const owner = owners.get(hash);
      if (owner === undefined) owners.set(hash, position);
      else if (owner !== position) dispute(hash, owner, position);
    });
    await pauseTurn();
  }
  for (const [position, one] of packages.entries()) {
    eachHash(one, (hash, isDirectory) => {
      const owner = isDirectory ? owners.get(hash) : undefined;
      if (owner !== undefined && owner !== position) dispute(hash, owner, position);
    });
    await pauseTurn();
  }
  const none = packages.map((): string[] => []);
  if (parties.size === 0) return none;

  const paths = none;
  const names = new Set<string>();
  for (const position of parties) {
    const one = packages[position] as P;
    const packed = await pathsOf(one);
    const own = packed ? unpackPaths(packed) : [];
    paths[position] = own;
    eachHash(one, (hash, isDirectory, at) => {
      if (!isDirectory && disputed.has(hash)) names.add(own[at] ?? '');
    });
    await pauseTurn();
  }
  for (const position of parties) {
    paths[position] = (paths[position] ?? []).filter(path => isBelow(path, names));
    await pauseTurn();
  }
  return paths;
}

/** True for a path in the set, and for one below it. */
function isBelow(path: string, names: ReadonlySet<string>): boolean {
  if (names.has(path)) return true;
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
    if (names.has(path.slice(0, at))) return true;
  }
  return false;
}

/** Calls a function for each hash of a package, in the order in which they are kept. */
function eachHash(
  { pathHashes }: Hashed,
  take: (hash: number, isDirectory: boolean, at: number) => void,
): void {
  if (!pathHashes) return;
  for (let at = 0; at * pathHashBytes < pathHashes.length; at += 1) {
    const value = pathHashes.readUIntBE(at * pathHashBytes, pathHashBytes);
    const lastBit = value % 2;
    take(value - lastBit, lastBit === 1, at);
  }
}
