import { type GitCommit, projectName, type WheelFile } from '../wheel-file.ts';
import {
  identityOf,
  type LockedPackage,
  lockedCommit,
  lockedWheel,
  mostLocked,
  type PythonLock,
  tablesOf,
} from './locked-package.ts';
import { type MarkerSystem, markerHolds } from './markers.ts';
import { leftOutOf, type ProjectParts, partIn } from './project-parts.ts';
import { isTable, namesIn, refuseLock, type Table, textIn, textsIn } from './toml-table.ts';

const mostVersions = 50;

interface Entry extends LockedPackage {
  readonly table: Table;
  /** True for the project itself and for members of its workspace: their directory is not on the server. */
  readonly isLocal: boolean;
  readonly isRoot: boolean;
}

/** Reads a `uv.lock`. What its project requires is installed, with the given extras and groups. Source: uv, Lockfile. */
export function readUvLock(name: string, lock: Table, parts: ProjectParts): PythonLock {
  if (lock.version !== 1) {
    refuseLock(
      name,
      `version ${String(lock.version).slice(0, 20)} of uv.lock is not known: version 1 is read`,
    );
  }
  const tables = tablesOf(name, lock.package, 'package');
  if (tables.length > mostLocked) refuseLock(name, `more than ${mostLocked} packages`);
  const entries = tables.map(table => entryOf(name, table));
  const byName = new Map<string, Entry[]>();
  for (const entry of entries) byName.set(entry.name, [...(byName.get(entry.name) ?? []), entry]);
  if ([...byName.values()].some(({ length }) => length > mostVersions)) {
    refuseLock(name, `more than ${mostVersions} versions of one package`);
  }
  const roots = rootsOf(entries);
  if (roots.length === 0) {
    refuseLock(name, 'it has no project: send what `uv export --format pylock.toml` prints');
  }
  return {
    requiresPython: textIn(lock, 'requires-python'),
    leftOut: leftOutOf(
      name,
      {
        extras: roots.flatMap(({ table }) => namesIn(table, 'optional-dependencies')),
        groups: roots.flatMap(({ table }) => namesIn(table, 'dev-dependencies')),
      },
      parts,
    ),
    select: system => selected(name, { roots, parts }, byName, system),
  };
}

function entryOf(name: string, table: Table): Entry {
  const of = identityOf(name, table);
  const source = isTable(table.source) ? table.source : {};
  const local =
    textIn(source, 'virtual') ?? textIn(source, 'editable') ?? textIn(source, 'directory');
  const wheels = tablesOf(name, table.wheels, `wheels of ${of.name}`).flatMap(
    (wheel): WheelFile[] => {
      const sha256 = textIn(wheel, 'hash')?.replace(/^sha256:/, '');
      // An address that a project requires is installed as such, and recorded.
      const found = lockedWheel(name, of, {
        url: wheel.url ?? source.url,
        sha256,
        size: wheel.size,
      });
      return found ? [found] : [];
    },
  );
  const what =
    local !== undefined
      ? 'a directory'
      : source.git !== undefined
        ? 'a git repository'
        : source.path !== undefined
          ? 'a path'
          : table.sdist !== undefined
            ? 'a source distribution'
            : undefined;
  return {
    ...of,
    wheels,
    source: what,
    commit: commitIn(name, of, source.git),
    table,
    isLocal: local !== undefined,
    isRoot: local === '.',
  };
}

/** Returns the commit in `https://host/path?rev=main#0123...`. */
function commitIn(name: string, of: { name: string }, git: unknown): GitCommit | undefined {
  if (typeof git !== 'string' || !URL.canParse(git)) return undefined;
  const { hash, searchParams } = new URL(git);
  const url = git.replace(/[?#].*$/s, '');
  const subdirectory = searchParams.get('subdirectory');
  return lockedCommit(name, of, { url, id: hash.slice(1), subdirectory });
}

function rootsOf(entries: readonly Entry[]): readonly Entry[] {
  const roots = entries.filter(({ isRoot }) => isRoot);
  // A workspace without a project of its own.
  return roots.length > 0 ? roots : entries.filter(({ isLocal }) => isLocal);
}

function selected(
  name: string,
  { roots, parts }: { roots: readonly Entry[]; parts: ProjectParts },
  byName: ReadonlyMap<string, readonly Entry[]>,
  system: MarkerSystem,
): readonly LockedPackage[] {
  const found = new Map<Entry, Set<string>>();
  const waiting: { entry: Entry; dependencies: unknown; extras: readonly string[] }[] = [];
  const reach = (entry: Entry, extras: readonly string[]) => {
    const known = found.get(entry);
    const seen = known ?? new Set<string>();
    found.set(entry, seen);
    if (known === undefined)
      waiting.push({ entry, dependencies: entry.table.dependencies, extras });
    const optional = entry.table['optional-dependencies'];
    for (const extra of extras) {
      if (seen.has(extra) || !isTable(optional)) continue;
      seen.add(extra);
      waiting.push({ entry, dependencies: partIn(optional, extra), extras });
    }
  };
  // Many dependencies have the same marker.
  const known = new Map<string, boolean>();
  const holds = (marker: string, extras: readonly string[]): boolean => {
    const key = `${marker}\n${extras.join(' ')}`;
    const held = known.get(key) ?? markerHolds(marker, { ...system, extras });
    known.set(key, held);
    return held;
  };
  for (const entry of roots) {
    reach(entry, parts.extras);
    const groups = entry.table['dev-dependencies'];
    for (const group of isTable(groups) ? parts.groups : []) {
      const dependencies = partIn(groups as Table, group);
      waiting.push({ entry, dependencies, extras: parts.extras });
    }
  }
  for (let work = waiting.pop(); work !== undefined; work = waiting.pop()) {
    const { entry, dependencies, extras } = work;
    for (const dependency of tablesOf(name, dependencies, `dependencies of ${entry.name}`)) {
      const marker = textIn(dependency, 'marker');
      if (marker !== undefined && !holds(marker, extras)) continue;
      reach(dependencyOf(name, dependency, byName, system), textsIn(dependency.extra));
    }
  }
  const isRoot = new Set(roots);
  return [...found.keys()].filter(entry => !isRoot.has(entry));
}

function dependencyOf(
  name: string,
  dependency: Table,
  byName: ReadonlyMap<string, readonly Entry[]>,
  system: MarkerSystem,
): Entry {
  const project = projectName(textIn(dependency, 'name') ?? '');
  const version = textIn(dependency, 'version');
  const candidates = (byName.get(project) ?? []).filter(
    entry => version === undefined || entry.version === version,
  );
  const isHere = ({ table }: Entry) => {
    const markers = textsIn(table['resolution-markers']);
    return markers.length === 0 || markers.some(marker => markerHolds(marker, system));
  };
  const [only] = candidates.length > 1 ? candidates.filter(isHere) : candidates;
  return (
    only ??
    refuseLock(
      name,
      `${project || 'a package'} is required and not locked: make the lock file again`,
    )
  );
}
