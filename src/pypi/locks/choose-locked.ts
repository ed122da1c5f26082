import type { PythonRequirement } from '../requirements/requirement.ts';
import { fitOfWheel, type PythonTarget } from '../solving/python-target.ts';
import type { GitCommit, WheelFile } from '../wheel-file.ts';
import { type LockedPackage, otherIndex, type PythonLock } from './locked-package.ts';
import {
  condaVersions,
  meets,
  type VersionCondition,
  versionConditions,
} from './python-versions.ts';
import { refuseLock } from './toml-table.ts';

/** What a Python lock file installs. */
export interface ChosenPackages {
  readonly wheels: readonly WheelFile[];
  /** Packages whose files are looked up at the index, by their hashes. */
  readonly lookups: readonly PythonRequirement[];
  /** Packages of git repositories, which are built. */
  readonly commits: readonly { readonly name: string; readonly commit: GitCommit }[];
}

/** The Python that a lock file is installed with, and what is left out of it. */
export interface WantedPython {
  /** A match specification of Conda: `python >=3.9`. */
  readonly spec: string;
  readonly leftOut: readonly string[];
}

const oldest = 7;
const newest = 20;
const mostPatches = 40;
const mostNamed = 5;

/**
 * Returns the Pythons that a lock file has wheels for: those that it allows may be newer than its wheels. Where there are none, it
 * is any that the lock file allows. Throws a `Fault` (400).
 */
export function wantedPython(
  name: string,
  lock: PythonLock,
  system: Pick<PythonTarget, 'machine' | 'glibc'>,
): WantedPython {
  const { requiresPython, leftOut } = lock;
  const conditions = versionConditions(requiresPython ?? '');
  if (conditions === undefined) {
    refuseLock(name, `requires-python '${requiresPython?.slice(0, 60)}' cannot be read`);
  }
  const allowed: number[] = [];
  const fitting: number[] = [];
  for (let minor = newest; minor >= oldest; minor -= 1) {
    const version = newestPatch(minor, conditions);
    if (version === undefined) continue;
    allowed.push(minor);
    if (lacking(name, lock, { ...system, version }).length === 0) fitting.push(minor);
  }
  if (allowed.length === 0) {
    refuseLock(name, `requires-python '${requiresPython?.slice(0, 60)}' allows no Python 3`);
  }
  const base = condaVersions(conditions);
  const isAny = fitting.length === 0 || fitting.length === allowed.length;
  const versions = isAny
    ? base
    : fitting.map(minor => [base, `3.${minor}.*`].filter(it => it !== '').join(',')).join('|');
  return { spec: versions === '' ? 'python' : `python ${versions}`, leftOut };
}

/** Returns the newest version of a minor one that meets all conditions. */
function newestPatch(minor: number, conditions: readonly VersionCondition[]): string | undefined {
  for (let patch = mostPatches; patch >= 0; patch -= 1) {
    const version = `3.${minor}.${patch}`;
    if (conditions.every(condition => meets(version, condition) === true)) return version;
  }
  return undefined;
}

/** Returns the packages of a lock file that have no wheel for a system, and what they have. */
function lacking(name: string, lock: PythonLock, target: PythonTarget): readonly LockedPackage[] {
  return uniqueIn(name, lock.select(target)).filter(
    one =>
      one.source === otherIndex ||
      (!one.commit && !hasHashes(one) && bestOf(one, target) === undefined),
  );
}

/** Returns the wheels of a lock file for a system. Throws a `Fault` (400) that names the packages without one. */
export function chooseLocked(name: string, lock: PythonLock, target: PythonTarget): ChosenPackages {
  const missing = lacking(name, lock, target);
  if (missing.length > 0) {
    const named = missing
      .slice(0, mostNamed)
      .map(({ name, version, source }) => `${name} ${version}${source ? ` (${source})` : ''}`);
    const more = missing.length > mostNamed ? ` and ${missing.length - mostNamed} more` : '';
    refuseLock(
      name,
      `it has no wheel for Python ${target.version} on Linux ${target.machine} with glibc ${target.glibc} of ${named.join(', ')}${more}. Packages of a lock file are not built: lock versions with wheels, or send a requirements.txt, which a builder can install`,
    );
  }
  const chosen = uniqueIn(name, lock.select(target));
  return {
    wheels: chosen.flatMap(one => (one.commit ? [] : (bestOf(one, target) ?? []))),
    commits: chosen.flatMap(({ name, commit }) => (commit ? [{ name, commit }] : [])),
    lookups: chosen.filter(hasHashes).map(({ name, version, hashes }) => ({
      name,
      extras: [],
      versions: `==${version}`,
      hashes,
    })),
  };
}

function hasHashes({ hashes = [], commit }: LockedPackage): boolean {
  return hashes.length > 0 && commit === undefined;
}

function uniqueIn(name: string, packages: readonly LockedPackage[]): readonly LockedPackage[] {
  const found = new Map<string, LockedPackage>();
  for (const one of packages) {
    const other = found.get(one.name);
    if (other !== undefined && other !== one) {
      refuseLock(
        name,
        `${one.name} is locked in the versions ${other.version} and ${one.version} for the same system: make the lock file again`,
      );
    }
    found.set(one.name, one);
  }
  return [...found.values()];
}

function bestOf({ wheels }: LockedPackage, target: PythonTarget): WheelFile | undefined {
  const fitting = wheels.flatMap(wheel => {
    const fit = fitOfWheel(wheel.fileName, target);
    return fit === undefined ? [] : [{ wheel, fit }];
  });
  // Two that fit the same way differ by their build numbers.
  const [best] = fitting.toSorted(
    (a, b) => a.fit - b.fit || (a.wheel.fileName < b.wheel.fileName ? 1 : -1),
  );
  return best?.wheel;
}
