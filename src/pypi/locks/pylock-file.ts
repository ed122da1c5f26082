import type { WheelFile } from '../wheel-file.ts';
import {
  identityOf,
  type LockedPackage,
  lockedCommit,
  lockedWheel,
  mostLocked,
  type PythonLock,
  tablesOf,
} from './locked-package.ts';
import { markerHolds } from './markers.ts';
import { leftOutOf, type ProjectParts } from './project-parts.ts';
import { isTable, refuseLock, type Table, textIn, textsIn } from './toml-table.ts';

/** Reads a `pylock.toml`: its default groups are installed, with the given extras and groups. Source: PyPA specifications, pylock.toml. */
export function readPylockFile(name: string, lock: Table, parts: ProjectParts): PythonLock {
  const version = textIn(lock, 'lock-version') ?? '';
  if (!/^1\.\d{1,3}$/.test(version)) {
    refuseLock(name, `lock-version '${version.slice(0, 20)}' is not known: version 1 is read`);
  }
  const tables = tablesOf(name, lock.packages, 'packages');
  if (tables.length > mostLocked) refuseLock(name, `more than ${mostLocked} packages`);
  const defaults = textsIn(lock['default-groups']);
  const groups = [...defaults, ...parts.groups];
  const environments = textsIn(lock.environments);
  const packages = tables.map(table => ({
    marker: textIn(table, 'marker'),
    locked: packageOf(name, table),
  }));
  return {
    requiresPython: textIn(lock, 'requires-python'),
    leftOut: leftOutOf(
      name,
      {
        extras: textsIn(lock.extras),
        // Exporters name default groups that are for nobody to choose.
        groups: [...textsIn(lock['dependency-groups']), ...defaults],
      },
      { extras: parts.extras, groups },
    ),
    select(system) {
      const here = { ...system, groups, extras: parts.extras };
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
  const vcs = isTable(table.vcs) && textIn(table.vcs, 'type') === 'git' ? table.vcs : {};
  const { url, 'commit-id': id, subdirectory } = vcs;
  return { ...of, wheels, source, commit: lockedCommit(name, of, { url, id, subdirectory }) };
}
