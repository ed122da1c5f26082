import { installOrder, type OrderedPackage } from './install-order.ts';

/** A package of an environment, and its paths there. */
export interface PathsOfPackage extends OrderedPackage {
  /** Paths of files and links relative to the prefix, as the package has them when it is alone. */
  readonly paths: readonly string[];
}

/**
 * Decides about paths that several packages of an environment have. As in rattler, the package that comes last in the order
 * of installation keeps a path: a package wins over those that it requires. A file also wins or loses against a directory of
 * its name, with all that is in it; there rattler writes the same records, but leaves empty directories in the way, so that
 * the file is at neither path. Returns the lost paths of each package that loses any, sorted; installed with
 * them as `lostPaths`, the packages have no path in common. Names are in lower case. Takes about a second for a million
 * paths.
 */
export function resolveClobbering(
  packages: readonly PathsOfPackage[],
): ReadonlyMap<string, readonly string[]> {
  const disputed = disputedPaths(packages);
  if (disputed.size === 0) return new Map();
  const ordered = installOrder(packages).map(({ name, paths }) => ({
    name: name.toLowerCase(),
    paths: paths.filter(
      path => disputed.has(path) || ancestorsOf(path).some(at => disputed.has(at)),
    ),
  }));
  const root = new Node();
  for (const [rank, { paths }] of ordered.entries()) for (const path of paths) root.add(path, rank);
  const lost = ordered.map(
    ({ name, paths }, rank) =>
      [name, paths.filter(path => !root.isKept(path.split('/'), rank)).sort()] as const,
  );
  return new Map(lost.filter(([, paths]) => paths.length > 0));
}

/** Returns the paths that two packages have as a file, and those that one has as a file and one as a directory. */
function disputedPaths(packages: readonly PathsOfPackage[]): Set<string> {
  const files = new Set<string>();
  const directories = new Set<string>();
  const disputed = new Set<string>();
  for (const { paths } of packages) {
    for (const path of paths) {
      if (files.has(path)) disputed.add(path);
      files.add(path);
      for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
        const directory = path.slice(0, at);
        if (directories.has(directory)) break;
        directories.add(directory);
      }
    }
  }
  for (const directory of directories) if (files.has(directory)) disputed.add(directory);
  return disputed;
}

function ancestorsOf(path: string): string[] {
  const names = path.split('/');
  return names.slice(1).map((_, index) => names.slice(0, index + 1).join('/'));
}

/** A name in the tree of all paths. */
class Node {
  /** The highest rank of packages that have this path or one below it. */
  #highest = -1;
  /** The highest rank of packages that have a file here. */
  #file = -1;
  readonly #children = new Map<string, Node>();

  add(path: string, rank: number): void {
    let node: Node = this;
    for (const name of path.split('/')) {
      node.#highest = Math.max(node.#highest, rank);
      let next = node.#children.get(name);
      if (next === undefined) {
        next = new Node();
        node.#children.set(name, next);
      }
      node = next;
    }
    node.#highest = Math.max(node.#highest, rank);
    node.#file = Math.max(node.#file, rank);
  }

  /** Returns true if the package with this rank keeps its file at the path. */
  isKept(names: readonly string[], rank: number): boolean {
    let node: Node | undefined = this;
    for (const name of names) {
      // A file with the highest rank hides what is below.
      if (node === undefined || (node.#file >= 0 && node.#file === node.#highest)) return false;
      node = node.#children.get(name);
    }
    return node !== undefined && node.#highest === rank && node.#file === rank;
  }
}
