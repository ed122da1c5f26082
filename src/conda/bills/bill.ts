import { promisify } from 'node:util';
import { deflateRaw, inflateRawSync } from 'node:zlib';
import { compareTexts } from '../../foundation/text.ts';
import type { CondaPackage } from '../conda-package.ts';
import type { LayerContents, LayeredPackage } from '../layers/package-layers.ts';

/** A package, with everything that lock files and bills of materials say about it. */
export interface BilledPackage extends Omit<CondaPackage, 'record'> {
  /** Match specifications of packages that are not installed with it. */
  readonly constrains: readonly string[];
  readonly noarch?: 'generic' | 'python' | undefined;
  /** The license as the package states it; often an SPDX expression. */
  readonly license?: string | undefined;
  readonly licenseFamily?: string | undefined;
  /** When the package was made, in ms or s since the epoch, as the channel states it. */
  readonly timestamp?: number | undefined;
  readonly trackFeatures?: string | undefined;
  /** Path of the directory for packages, stated by a Python with its own. */
  readonly sitePackages?: string | undefined;
  readonly summary?: string | undefined;
  readonly home?: string | undefined;
}

/** A wheel, with everything that lock files and bills of materials say about it. */
export interface BilledWheel {
  readonly name: string;
  readonly version: string;
  /** Undefined for one of a repository, which has no file and no digest. */
  readonly fileName: string | undefined;
  /** The address where it is published, without credentials; that of pip for one of a repository, with its commit. */
  readonly url: string;
  readonly sha256: string | undefined;
  readonly size: number | undefined;
  /** The license as the package states it; often an SPDX expression. */
  readonly license?: string | undefined;
  readonly summary?: string | undefined;
  readonly home?: string | undefined;
  readonly requiresPython?: string | undefined;
  /** Requirements, with their markers. */
  readonly requires: readonly string[];
}

/** The packages of an image for one platform. */
interface PlatformBill {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  /** Sorted by name. */
  readonly packages: readonly BilledPackage[];
  /** Sorted by name; absent for none. */
  readonly wheels?: readonly BilledWheel[] | undefined;
  /** Layers with packages; absent in bills of earlier versions. */
  readonly contents?: readonly LayerContents[] | undefined;
}

/** The content of all documents about a solution. Plain JSON: it is kept with the build. */
export interface Bill extends Omit<DocumentedSolution, 'platforms'> {
  /** Sorted by subdirectory. */
  readonly platforms: readonly PlatformBill[];
}

type Facts = Readonly<Record<string, unknown>>;

/**
 * Returns the bill of a solution. The channel's record of a package counts before the package's own: channels correct
 * dependencies. Texts are shortened, and characters that are not printable become blanks: packages may state anything.
 */
export function billOf({ platforms, ...solution }: DocumentedSolution): Bill {
  return {
    ...solution,
    platforms: platforms
      .map(({ subdir, packages, wheels = [], contents }) => ({
        subdir,
        ...(contents === undefined ? {} : { contents }),
        packages: packages
          .map(billedPackage)
          .sort((one, other) => compareTexts(one.name, other.name)),
        ...(wheels.length === 0
          ? {}
          : {
              wheels: wheels
                .map(shortenedWheel)
                .sort((one, other) => compareTexts(one.name, other.name)),
            }),
      }))
      .sort((one, other) => compareTexts(one.subdir, other.subdir)),
  };
}

function billedPackage({ package: it, sums, index, about }: LayeredPackage): BilledPackage {
  const { record, ...own } = it;
  const facts: Facts = { ...index, ...record };
  const depends = it.depends.length > 0 ? it.depends : facts.depends;
  const { noarch, timestamp } = facts;
  return {
    ...own,
    // A lock file may state only one of the digests, and the same image has the same bills.
    ...sums,
    depends: textsOf(depends),
    constrains: textsOf(facts.constrains),
    noarch: noarch === 'python' || noarch === 'generic' ? noarch : undefined,
    license: textOf(facts.license ?? about.license, 1000),
    licenseFamily: textOf(facts.license_family ?? about.license_family, 100),
    timestamp: Number.isSafeInteger(timestamp) ? (timestamp as number) : undefined,
    trackFeatures: trackedOf(facts.track_features),
    sitePackages: textOf(facts.python_site_packages_path, 1000),
    summary: textOf(about.summary, 500),
    home: textOf(Array.isArray(about.home) ? about.home[0] : about.home, 1000),
  };
}

function shortenedWheel(it: BilledWheel): BilledWheel {
  return {
    ...it,
    license: textOf(it.license, 1000),
    summary: textOf(it.summary, 500),
    home: textOf(it.home, 1000),
    requiresPython: textOf(it.requiresPython, 200),
    requires: textsOf(it.requires),
  };
}

function trackedOf(features: unknown): string | undefined {
  return textOf(Array.isArray(features) ? textsOf(features).join(' ') : features, 1000);
}

function textsOf(list: unknown): readonly string[] {
  if (!Array.isArray(list)) return [];
  return list.map(text => textOf(text, 1000)).filter(text => text !== undefined);
}

function textOf(value: unknown, maxLength: number): string | undefined {
  if (typeof value !== 'string') return undefined;
  const text = value
    .slice(0, maxLength)
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim();
  return text === '' ? undefined : text;
}

/** The solution of an image for one platform. */
export interface PlatformSolution {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  /** Sorted by name. */
  readonly packages: readonly LayeredPackage[];
  /** Packages of PyPI. Default: none. */
  readonly wheels?: readonly BilledWheel[] | undefined;
  /** Layers with packages. Default: not known. */
  readonly contents?: readonly LayerContents[] | undefined;
}

/** A solution with what a document says about it. */
export interface DocumentedSolution {
  readonly platforms: readonly PlatformSolution[];
  /** Base URLs of the channels in order of priority. */
  readonly channels: readonly string[];
  readonly requested: readonly string[];
  /** Name of the image with its digest: identifiers of documents are derived from it and the packages. */
  readonly image: string;
}

/** A package of a bill, once for all platforms, and the packages that it depends on. */
export interface GraphNode {
  readonly package: BilledPackage | BilledWheel;
  /** URLs, sorted. */
  readonly dependsOn: readonly string[];
}

/** Returns the packages of all platforms by URL, sorted: those for no architecture are shared by the platforms. */
export function graphOf({ platforms }: Bill): ReadonlyMap<string, GraphNode> {
  const found = new Map<string, { package: GraphNode['package']; dependsOn: Set<string> }>();
  for (const { packages, wheels = [] } of platforms) {
    const urls = new Map(packages.map(({ name, url }) => [name, url]));
    for (const it of packages) {
      const node = found.get(it.url) ?? { package: it, dependsOn: new Set() };
      found.set(it.url, node);
      for (const spec of it.depends) {
        const url = urls.get(partsOfSpec(spec).name);
        if (url !== undefined) node.dependsOn.add(url);
      }
    }
    const projects = new Map([...packages, ...wheels].map(it => [projectKey(it.name), it.url]));
    for (const it of wheels) {
      const node = found.get(it.url) ?? { package: it, dependsOn: new Set() };
      found.set(it.url, node);
      for (const requirement of ['python', ...it.requires]) {
        // A package for an extra may be here for another reason.
        const semicolon = requirement.indexOf(';');
        if (semicolon >= 0 && /\bextra\b/.test(requirement.slice(semicolon))) continue;
        const url = projects.get(projectKey(/^[A-Za-z0-9._-]*/.exec(requirement)?.[0] ?? ''));
        if (url !== undefined && url !== it.url) node.dependsOn.add(url);
      }
    }
  }
  return new Map(
    [...found]
      .sort(([one], [other]) => compareTexts(one, other))
      .map(([url, node]) => [url, { ...node, dependsOn: [...node.dependsOn].sort(compareTexts) }]),
  );
}

/** Source: PyPA specifications, Names and normalization. */
function projectKey(name: string): string {
  return name.replace(/[-_.]+/g, '-').toLowerCase();
}

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

const deflate = promisify(deflateRaw);
const maxBillBytes = 64 * 1024 * 1024;

/** Returns a bill in the form that is kept with its build: about 250 bytes for each package. */
export async function packBill(bill: Bill): Promise<Buffer> {
  return deflate(JSON.stringify(bill));
}

/** Returns the bill that was kept. Blocks its thread. */
export function unpackBill(kept: Uint8Array): Bill {
  return JSON.parse(
    inflateRawSync(kept, { maxOutputLength: maxBillBytes }).toString('utf8'),
  ) as Bill;
}
