import { compareTexts } from '../../foundation/text/text-order.ts';
import type { Bill, BilledPackage } from './bill.ts';
import { partsOfSpec } from './link-order.ts';

/** A package of a bill, once for all platforms, and the packages that it depends on. */
export interface GraphNode {
  readonly package: BilledPackage;
  /** URLs, sorted. */
  readonly dependsOn: readonly string[];
}

/** Returns the packages of all platforms by URL, sorted: those for no architecture are shared by the platforms. */
export function graphOf({ platforms }: Bill): ReadonlyMap<string, GraphNode> {
  const found = new Map<string, { package: BilledPackage; dependsOn: Set<string> }>();
  for (const { packages } of platforms) {
    const urls = new Map(packages.map(({ name, url }) => [name, url]));
    for (const it of packages) {
      const node = found.get(it.url) ?? { package: it, dependsOn: new Set() };
      found.set(it.url, node);
      for (const spec of it.depends) {
        const url = urls.get(partsOfSpec(spec).name);
        if (url !== undefined) node.dependsOn.add(url);
      }
    }
  }
  return new Map(
    [...found]
      .sort(([one], [other]) => compareTexts(one, other))
      .map(([url, node]) => [url, { ...node, dependsOn: [...node.dependsOn].sort(compareTexts) }]),
  );
}
