import {
  type ChannelAccess,
  type CondaPackage,
  type CondaSolver,
  isUnsolvedFor,
  linkOrder,
  type ReadLock,
  type SolveOptions,
  type VirtualPackage,
} from '../../../conda/index.ts';
import { maxLockLength } from '../../../conda/locks/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { type PythonTarget, readPythonLock } from '../../../pypi/index.ts';
import type { ProjectParts } from '../../../pypi/locks/index.ts';
import { readAll } from '../../../upstream/index.ts';
import { anyCuda } from '../../recipe/conda/conda-platform.ts';
import type { CondaEnvironment, CondaSource } from '../../recipe/conda/conda-source.ts';
import { isPackageUrl, parsePackage } from '../../recipe/conda/package-spec.ts';
import { noParts, pythonFileIn } from '../../recipe/conda/python-inputs.ts';
import { sortedOnce } from '../../recipe/text/canonical-document.ts';
import type { ReadOwnLock } from './kept-documents.ts';

export interface CondaPackagesDeps {
  readonly solver: Pick<CondaSolver, 'solve'>;
  readonly channels: Pick<ChannelAccess, 'open'>;
  /** Reads a lock file of any form for a subdirectory of channels. */
  readonly readLock: ReadLock;
  readonly readOwnLock: ReadOwnLock;
}

/** The system that packages are chosen for. */
export interface CondaSystem {
  /** `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  readonly virtualPackages: readonly VirtualPackage[];
}

/** The packages of an image for one platform, and what pip adds to them. */
export interface FoundPackages {
  readonly packages: readonly CondaPackage[];
  /** Lines for pip. */
  readonly pip: readonly string[];
  /** True for a Python whose version the request leaves open: another one can be chosen. */
  readonly isPythonFree?: boolean | undefined;
  /** True for lines of a lock file: these are all packages of pip. */
  readonly isLocked: boolean;
  /** A lock file of Python packages: it has all packages of pip. */
  readonly pythonLock?: NamedLock | undefined;
}

/** A lock file of Python packages. */
interface NamedLock {
  /** What the file is called in messages. */
  readonly name: string;
  readonly text: string;
  readonly parts: ProjectParts;
}

interface CondaSolveOptions extends SolveOptions {
  /** The Python that packages of pip bring. Default: the newest. */
  readonly python?: string | undefined;
  /** Match specifications beside those of an environment. Default: none. */
  readonly pinned?: readonly string[] | undefined;
}

/**
 * Returns the packages of an image for one platform: those of a lock file, or those that the solver chooses, with the
 * packages that every image gets. Packages given by URL are not solved and replace others of the same name, as in conda.
 * Packages of pip bring Python. Throws a `Fault` for packages without a solution.
 */
export async function findCondaPackages(
  { wanted, channels, options: { basePackages } }: CondaSource,
  system: CondaSystem,
  deps: CondaPackagesDeps,
  { python = 'python', pinned = [], ...options }: CondaSolveOptions,
): Promise<FoundPackages> {
  const solve = async (specs: readonly string[], locked?: readonly CondaPackage[]) => {
    const request = { specs, channels, ...system, locked };
    const { virtualPackages } = system;
    try {
      return await deps.solver.solve(request, options);
    } catch (error) {
      const hasCuda = virtualPackages.some(({ name }) => name === '__cuda');
      if (hasCuda || !isUnsolvedFor(error, '__cuda')) throw error;
      // A package may require CUDA without showing it in its name.
      options.log(`A package requires CUDA: solving again with CUDA ${anyCuda}`);
      const cuda = { name: '__cuda', version: anyCuda };
      return deps.solver.solve(
        { ...request, virtualPackages: [...virtualPackages, cuda] },
        options,
      );
    }
  };

  const readUrls = async (urls: readonly string[], sha256s: readonly string[] = []) => {
    const text = ['@EXPLICIT', ...urls, ''].join('\n');
    const { packages } = await deps.readLock(text, system.subdir, 'packages');
    return packages.map((one, at) => ({ ...one, sha256: sha256s[at] || one.sha256 }));
  };

  const withBase = async (locked: readonly CondaPackage[]): Promise<readonly CondaPackage[]> => {
    const names = new Set(locked.map(({ name }) => name));
    const missing = basePackages.filter(spec => {
      const name = parsePackage(spec)?.name.toLowerCase();
      return name === undefined || !names.has(name);
    });
    if (missing.length === 0) return locked;
    const places = new Map(locked.map(({ url }, place) => [url, place]));
    const placeOf = ({ url }: CondaPackage) => places.get(url) ?? locked.length;
    // The order of a lock file is one in which its packages can be installed.
    return linkOrder(await solve(missing, locked)).toSorted(
      (one, other) => placeOf(one) - placeOf(other),
    );
  };

  const withPip = async (
    { packages: wantedPackages, pip }: Pick<CondaEnvironment, 'packages' | 'pip'>,
    isLocked: boolean,
  ): Promise<FoundPackages> => {
    const everything = sortedOnce([...wantedPackages, ...basePackages]);
    const urls = everything.filter(isPackageUrl);
    const given = urls.length === 0 ? [] : await readUrls(urls);
    const named = everything.filter(spec => !isPackageUrl(spec));
    const hasPython =
      named.some(spec => parsePackage(spec)?.name === 'python') ||
      given.some(({ name }) => name === 'python');
    const isBare = named.includes('python');
    const isPythonFree = pip.length > 0 && (!hasPython || isBare);
    const others = named.filter(spec => spec !== 'python');
    const specs = [...(isPythonFree ? [...others, python] : named), ...pinned];
    const replaced = new Set(given.map(({ name }) => name));
    const solved = specs.length === 0 ? [] : await solve(specs);
    const packages = [...solved.filter(({ name }) => !replaced.has(name)), ...given];
    return { packages, pip, isLocked, isPythonFree };
  };

  const withPythonLock = async (pythonLock: NamedLock): Promise<FoundPackages> => {
    const pythonSystem = pythonSystemOf(system);
    if (pythonSystem === undefined) {
      throw new Fault('bad-request', `There are no wheels for ${system.subdir}`, {
        phase: 'build',
      });
    }
    const { spec, leftOut } = await readPythonLock.python({ ...pythonLock, system: pythonSystem });
    if (leftOut.length > 0) options.log(`${pythonLock.name}: not installed: ${leftOut.join(', ')}`);
    return { ...(await withPip({ packages: [spec], pip: [] }, true)), pythonLock };
  };

  switch (wanted.form) {
    case 'environment': {
      const { pythonLock } = wanted;
      if (pythonLock) return withPythonLock({ ...pythonLock, name: pythonLock.file });
      if (wanted.leftOut?.length) options.log(`Not installed: ${wanted.leftOut.join(', ')}`);
      return withPip(wanted, false);
    }
    case 'lock': {
      const packages = await withBase(await readUrls(wanted.urls, wanted.sha256s));
      return { packages, pip: wanted.pip, isLocked: true };
    }
    case 'locks': {
      const own = wanted.platforms.find(({ subdir }) => subdir === system.subdir);
      const packages = await withBase(await readUrls(own?.urls ?? [], own?.sha256s));
      return { packages, pip: own?.pip ?? [], isLocked: true };
    }
    case 'lockUrl': {
      const { url } = wanted;
      const text =
        (await deps.readOwnLock(url)) ?? (await fetchText(deps.channels, url, options.signal));
      const python = pythonFileIn(url, text.replace(/^\ufeff/, ''), noParts);
      if (python?.pythonLock) return withPythonLock({ ...python.pythonLock, name: url });
      if (python) return withPip(python, false);
      const { packages, pip } = await deps.readLock(text, system.subdir, url);
      return { packages: await withBase(packages), pip, isLocked: true };
    }
  }
}

/** Returns the system that wheels are chosen for; undefined for one that has none. */
export function pythonSystemOf({
  subdir,
  virtualPackages,
}: CondaSystem): Pick<PythonTarget, 'machine' | 'glibc'> | undefined {
  const machine = machines[subdir];
  const glibc = virtualPackages.find(({ name }) => name === '__glibc')?.version;
  return machine === undefined || glibc === undefined ? undefined : { machine, glibc };
}

const machines: Readonly<Record<string, PythonTarget['machine']>> = {
  'linux-64': 'x86_64',
  'linux-aarch64': 'aarch64',
};

async function fetchText(
  channels: Pick<ChannelAccess, 'open'>,
  url: string,
  signal: AbortSignal,
): Promise<string> {
  const { body } = await channels.open(url, { signal });
  return (await readAll(body, maxLockLength, 'The lock file')).toString();
}
