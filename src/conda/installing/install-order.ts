/** A package as far as its place in the order of installation depends on it. */
export interface OrderedPackage {
  readonly name: string;
  /** Match specifications of the packages that it requires. */
  readonly depends: readonly string[];
  /** True for a package that fits every platform. */
  readonly isNoarch: boolean;
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
  const order = visit(roots, kept, byName, done);
  // Circles that nothing outside of them requires.
  const rest = names.filter(name => !done.has(name));
  return [...order, ...visit(rest, kept, byName, done)];
}

function visit<T>(
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
