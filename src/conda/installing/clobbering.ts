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

/** A package as far as its place in the order of installation depends on it. */
export interface OrderedPackage {
  readonly name: string;
  /** Match specifications of the packages that it requires. */
  readonly depends: readonly string[];
  /** True for a package that fits every platform. */
  readonly isNoarch: boolean;
  /** Packages with a higher number are installed after all those with a lower one. Default: 0. */
  readonly tier?: number | undefined;
}

/**
 * Returns packages with unique names so that each comes after those that it requires: the same order for the same packages,
 * whatever order they come in. Source: rattler_conda_types 0.58, sort_topologically.
 */
export function installOrder<T extends OrderedPackage>(packages: readonly T[]): T[] {
  const byName = new Map(packages.map(one => [one.name.toLowerCase(), one]));
  const names = [...byName.keys()].sort();
  const edges = new Map(
    names.map(name => [name, [...new Set((byName.get(name)?.depends ?? []).map(nameOf))]] as const),
  );
  const broken = brokenEdges(names, edges, byName);
  const kept = (name: string) =>
    (edges.get(name) ?? []).filter(next => !broken.has(edge(name, next)));
  const required = new Set(names.flatMap(kept));
  const roots = names.filter(name => !required.has(name));
  const done = new Set<string>();
  const order = visitInOrder(roots, kept, byName, done);
  // Circles that nothing outside of them requires.
  const rest = names.filter(name => !done.has(name));
  const all = [...order, ...visitInOrder(rest, kept, byName, done)];
  return all.sort((one, other) => (one.tier ?? 0) - (other.tier ?? 0));
}

function visitInOrder<T>(
  roots: readonly string[],
  next: (name: string) => string[],
  byName: ReadonlyMap<string, T>,
  done: Set<string>,
): T[] {
  const order: T[] = [];
  const stack = roots.map(name => ({ name, isResolved: false }));
  for (let step = stack.pop(); step !== undefined; step = stack.pop()) {
    const { name, isResolved } = step;
    const found = byName.get(name);
    if (isResolved) {
      if (found !== undefined) order.push(found);
      continue;
    }
    if (found === undefined || done.has(name)) continue;
    done.add(name);
    stack.push({ name, isResolved: true });
    for (const required of next(name).sort()) stack.push({ name: required, isResolved: false });
  }
  return order;
}

/** Returns the name in a match specification. */
function nameOf(spec: string): string {
  const text = spec.trim().replace(/^.*::/, '');
  return /^[^\s=<>!~,;[]*/.exec(text)?.[0].toLowerCase() ?? '';
}

function edge(from: string, to: string): string {
  return `${from} ${to}`;
}

/** Returns the edges to ignore so that no circle is left: a `noarch` package comes after the others of its circle. */
function brokenEdges(
  names: readonly string[],
  edges: ReadonlyMap<string, readonly string[]>,
  byName: ReadonlyMap<string, OrderedPackage>,
): Set<string> {
  const broken = new Set<string>();
  for (const circle of circlesOf(names, edges)) {
    for (const [index, name] of circle.entries()) {
      const next = circle[(index + 1) % circle.length] ?? name;
      const isBound = byName.get(name)?.isNoarch === false;
      const isNextBound = byName.get(next)?.isNoarch === false;
      const isLast = index === circle.length - 1;
      if (isBound && !isNextBound) broken.add(edge(name, next));
      else if ((!isBound && isNextBound) || isLast) broken.add(edge(next, name));
      else continue;
      break;
    }
  }
  return broken;
}

/** Yields one circle for each edge that leads back: all of them together may have billions of names. */
function* circlesOf(
  names: readonly string[],
  edges: ReadonlyMap<string, readonly string[]>,
): Generator<string[]> {
  const visited = new Set<string>();
  for (const root of names) {
    if (visited.has(root)) continue;
    visited.add(root);
    const path = [root];
    const places = new Map([[root, 0]]);
    const stack = [{ name: root, next: 0 }];
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const next = edges.get(top.name)?.[top.next];
      const place = next === undefined ? undefined : places.get(next);
      top.next += 1;
      if (next === undefined) {
        stack.pop();
        path.pop();
        places.delete(top.name);
      } else if (place !== undefined) {
        yield path.slice(place);
      } else if (edges.has(next) && !visited.has(next)) {
        visited.add(next);
        places.set(next, path.length);
        path.push(next);
        stack.push({ name: next, next: 0 });
      }
    }
  }
}
