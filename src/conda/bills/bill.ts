import { compareTexts } from '../../foundation/text/text-order.ts';
import type { CondaPackage } from '../conda-package.ts';
import type { LayeredPackage } from '../layers/package-layers.ts';
import type { DocumentedSolution } from './documented-solution.ts';

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

/** The packages of an image for one platform. */
export interface PlatformBill {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  /** Sorted by name. */
  readonly packages: readonly BilledPackage[];
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
      .map(({ subdir, packages }) => ({
        subdir,
        packages: packages.map(billed).sort((one, other) => compareTexts(one.name, other.name)),
      }))
      .sort((one, other) => compareTexts(one.subdir, other.subdir)),
  };
}

function billed({ package: it, sums, index, about }: LayeredPackage): BilledPackage {
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
