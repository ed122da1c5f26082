import type { ChannelAccess } from '../../../conda/channels/channel-access.ts';
import type { CondaPackage } from '../../../conda/conda-package.ts';
import type { LockedPackages } from '../../../conda/locks/read-lock-text.ts';
import type {
  CondaSolver,
  SolveOptions,
  VirtualPackage,
} from '../../../conda/solving/conda-solver.ts';
import { readAll } from '../../../upstream/exchange/answer.ts';
import type { CondaSource } from '../../recipe/conda/conda-source.ts';
import { isPackageUrl, parsePackage } from '../../recipe/conda/package-spec.ts';
import { sortedOnce } from '../../recipe/text/sorted.ts';
import { BuilderRequired } from './builder-required.ts';

export interface CondaPackagesDeps {
  readonly solver: Pick<CondaSolver, 'solve'>;
  readonly channels: Pick<ChannelAccess, 'open'>;
  /** Reads a lock file of any form for a subdirectory of channels. */
  readonly readLock: (text: string, subdir: string) => LockedPackages;
}

/** The system that packages are chosen for. */
export interface CondaSystem {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  readonly virtualPackages: readonly VirtualPackage[];
}

const maxLockBytes = 16 * 1024 * 1024;

/**
 * Returns the packages of an image for one platform: those of a lock file, or those that the solver chooses, with the
 * packages that every image gets. Packages given by URL are not solved and replace others of the same name, as in conda.
 * Throws a `Fault` for packages without a solution, and {@link BuilderRequired} for a lock file with packages for pip.
 */
export async function findCondaPackages(
  { wanted, channels, options: { basePackages } }: CondaSource,
  system: CondaSystem,
  deps: CondaPackagesDeps,
  options: SolveOptions,
): Promise<readonly CondaPackage[]> {
  const solve = (specs: readonly string[], locked?: readonly CondaPackage[]) =>
    deps.solver.solve({ specs, channels, ...system, locked }, options);

  const readUrls = (urls: readonly string[]) =>
    deps.readLock(['@EXPLICIT', ...urls, ''].join('\n'), system.subdir).packages;

  const withBase = async (locked: readonly CondaPackage[]): Promise<readonly CondaPackage[]> => {
    const names = new Set(locked.map(({ name }) => name));
    const missing = basePackages.filter(spec => {
      const name = parsePackage(spec)?.name.toLowerCase();
      return name === undefined || !names.has(name);
    });
    return missing.length === 0 ? locked : solve(missing, locked);
  };

  switch (wanted.form) {
    case 'environment': {
      const everything = sortedOnce([...wanted.packages, ...basePackages]);
      const specs = everything.filter(spec => !isPackageUrl(spec));
      const urls = everything.filter(isPackageUrl);
      const given = urls.length === 0 ? [] : readUrls(urls);
      const replaced = new Set(given.map(({ name }) => name));
      const solved = specs.length === 0 ? [] : await solve(specs);
      return [...solved.filter(({ name }) => !replaced.has(name)), ...given];
    }
    case 'lock':
      return withBase(readUrls(wanted.urls));
    case 'lockUrl': {
      const text = await fetchText(deps.channels, wanted.url, options.signal);
      const { packages, pip } = deps.readLock(text, system.subdir);
      if (pip.length > 0) throw new BuilderRequired(["the 'pip' packages of the lock file"]);
      return withBase(packages);
    }
  }
}

async function fetchText(
  channels: Pick<ChannelAccess, 'open'>,
  url: string,
  signal: AbortSignal,
): Promise<string> {
  const { body } = await channels.open(url, { signal });
  return (await readAll(body, maxLockBytes, 'The lock file')).toString();
}
