import type { WheelFile } from '../wheel-file.ts';
import {
  identityOf,
  isTable,
  type LockedPackage,
  lockedWheel,
  mostLocked,
  type PythonLock,
  refuseLock,
  type Table,
  tablesOf,
  textIn,
  textsIn,
} from './locked-package.ts';
import { markerHolds } from './markers.ts';

/** Reads a `pylock.toml`: its default groups are installed, and no extras. Source: PyPA specifications, pylock.toml. */
export function readPylockFile(name: string, lock: Table): PythonLock {
  const version = textIn(lock, 'lock-version') ?? '';
  if (!/^1\.\d{1,3}$/.test(version)) {
    refuseLock(name, `lock-version '${version.slice(0, 20)}' is not known: version 1 is read`);
  }
  const tables = tablesOf(name, lock.packages, 'packages');
  if (tables.length > mostLocked) refuseLock(name, `more than ${mostLocked} packages`);
  const groups = textsIn(lock['default-groups']);
  const environments = textsIn(lock.environments);
  const packages = tables.map(table => ({
    marker: textIn(table, 'marker'),
    requires: textIn(table, 'requires-python'),
    locked: packageOf(name, table),
  }));
  return {
    requiresPython: textIn(lock, 'requires-python'),
    leftOut: [
      ...textsIn(lock.extras).map(extra => `the extra '${extra}'`),
      ...textsIn(lock['dependency-groups'])
        .filter(group => !groups.includes(group))
        .map(group => `the group '${group}'`),
    ],
    select(system) {
      const here = { ...system, groups };
      if (environments.length > 0 && !environments.some(marker => markerHolds(marker, here))) {
        refuseLock(
          name,
          `it is not locked for Python ${system.version} on Linux ${system.machine}`,
        );
      }
      return packages
        .filter(({ marker }) => marker === undefined || markerHolds(marker, here))
        .map(({ locked }) => locked);
    },
  };
}

function packageOf(name: string, table: Table): LockedPackage {
  const of = identityOf(name, table);
  const archive = isTable(table.archive) ? [table.archive] : [];
  const listed = [...tablesOf(name, table.wheels, `wheels of ${of.name}`), ...archive];
  const wheels = listed.flatMap((wheel): WheelFile[] => {
    const { url, size } = wheel;
    const found = lockedWheel(name, of, { url, sha256: textIn(wheel.hashes, 'sha256'), size });
    return found ? [found] : [];
  });
  const source =
    table.vcs !== undefined
      ? 'a git repository'
      : table.directory !== undefined
        ? 'a directory'
        : table.sdist !== undefined || table.archive !== undefined
          ? 'a source distribution'
          : undefined;
  return { ...of, wheels, source };
}
