import { compareTexts } from '../../foundation/text/text-order.ts';
import type { CondaPackage } from '../conda-package.ts';

type Linked = Pick<CondaPackage, 'name' | 'depends'>;

/** Returns the parts of a match specification: `python` and `>=3.12` for `conda-forge::python >=3.12`. */
export function partsOfSpec(spec: string): { readonly name: string; readonly constraint: string } {
  const [, name = '', constraint = ''] = /^(?:[^ ]*::)?([^ =<>!~[;]*)(.*)$/s.exec(spec) ?? [];
  return { name, constraint: constraint.trim() };
}

/**
 * Returns packages in the order in which they can be linked: each after those that it depends on, as far as there is no
 * circle, and by name otherwise. A program that installs an explicit lock file keeps its order.
 */
export function linkOrder<T extends Linked>(packages: readonly T[]): readonly T[] {
  const byName = new Map(packages.map(it => [it.name, it]));
  const requiredBy = ({ depends }: T) => {
    const names = new Set(depends.map(spec => partsOfSpec(spec).name));
    return [...names].flatMap(name => byName.get(name) ?? []).sort(byPackageName);
  };
  const ordered = new Set<T>();
  const seen = new Set<T>();
  // Without recursion: a chain of dependencies can be as long as the list.
  for (const first of packages.toSorted(byPackageName)) {
    const path = [{ it: first, left: seen.has(first) ? [] : requiredBy(first) }];
    seen.add(first);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const next = top.left.shift();
      if (next === undefined) ordered.add((path.pop() as typeof top).it);
      else if (!seen.has(next)) {
        seen.add(next);
        path.push({ it: next, left: requiredBy(next) });
      }
    }
  }
  return [...ordered];
}

function byPackageName(one: Linked, other: Linked): number {
  return compareTexts(one.name, other.name);
}
