import { type GitCommit, projectName } from '../wheel-file.ts';
import {
  identityOf,
  lockedCommit,
  mostLocked,
  otherIndex,
  type PythonLock,
  tablesOf,
} from './locked-package.ts';
import { markerHolds } from './markers.ts';
import { leftOutOf, type ProjectParts } from './project-parts.ts';
import { isTable, refuseLock, type Table, textIn, textsIn } from './toml-table.ts';

/** An index that a project names explicitly, although it is the default one. */
const publicIndex = 'https://pypi.org/simple';

/**
 * Reads a `poetry.lock`: its group `main` is installed, with the given extras and groups. It states no addresses: files are looked up at the index by
 * their SHA-256. Source: poetry, `packages/locker.py`.
 */
export function readPoetryLock(name: string, lock: Table, parts: ProjectParts): PythonLock {
  const installed = ['main', ...parts.groups].map(projectName);
  const metadata = isTable(lock.metadata) ? lock.metadata : {};
  const version = textIn(metadata, 'lock-version') ?? '';
  if (!/^2\.\d{1,3}$/.test(version)) {
    refuseLock(
      name,
      `lock-version '${version.slice(0, 20)}' of poetry.lock is not read: run 'poetry lock' of poetry 1.3 or later`,
    );
  }
  const tables = tablesOf(name, lock.package, 'package');
  if (tables.length > mostLocked) refuseLock(name, `more than ${mostLocked} packages`);
  const packages = tables.map(table => {
    const groups = textsIn(table.groups);
    const { markers } = table;
    const of = identityOf(name, table);
    return {
      groups,
      isInstalled: groups.length === 0 || groups.some(one => installed.includes(projectName(one))),
      markers: groups
        .filter(one => installed.includes(projectName(one)))
        .map(group => (typeof markers === 'string' ? markers : textIn(markers, group))),
      // What an extra brings has a marker that names it.
      isOptional: table.optional === true && typeof markers !== 'string',
      locked: {
        ...of,
        wheels: [],
        hashes: tablesOf(name, table.files, 'files').flatMap(file => {
          const hash = textIn(file, 'hash') ?? '';
          return /^sha256:[0-9a-f]{64}$/.test(hash) ? [hash.slice('sha256:'.length)] : [];
        }),
        source: sourceOf(table.source),
        commit: commitOf(name, of, table.source),
      },
    };
  });
  const others = new Set(packages.flatMap(({ groups }) => groups).filter(it => it !== 'main'));
  const extras = isTable(lock.extras) ? Object.keys(lock.extras) : [];
  return {
    requiresPython: specifiersOf(textIn(metadata, 'python-versions') ?? ''),
    leftOut: leftOutOf(name, { extras, groups: [...others] }, parts),
    select: system =>
      packages
        .filter(({ isInstalled, isOptional }) => isInstalled && !isOptional)
        .filter(
          ({ markers }) =>
            markers.length === 0 ||
            markers.some(
              marker =>
                marker === undefined || markerHolds(marker, { ...system, extras: parts.extras }),
            ),
        )
        .map(({ locked }) => locked),
  };
}

function commitOf(name: string, of: { name: string }, source: unknown): GitCommit | undefined {
  if (!isTable(source) || textIn(source, 'type') !== 'git') return undefined;
  const { url, resolved_reference: id, subdirectory } = source;
  return lockedCommit(name, of, { url, id, subdirectory });
}

function sourceOf(source: unknown): string | undefined {
  switch (textIn(source, 'type')) {
    case undefined:
      return undefined;
    case 'git':
      return 'a git repository';
    case 'legacy':
      // The same name at another index could be another package.
      return textIn(source, 'url')?.replace(/\/$/, '') === publicIndex ? undefined : otherIndex;
    default:
      return 'a path or address';
  }
}

/** Returns the versions of Python in poetry's own form, `^3.9`, as other programs write them; undefined for a union. */
function specifiersOf(text: string): string | undefined {
  if (text.includes('|') || text.trim() === '*') return undefined;
  return text
    .split(/[, ]+/)
    .filter(part => part !== '')
    .map(part => {
      const [, sign, version = ''] = /^([\^~])(\d[\d.]{0,30})$/.exec(part) ?? [];
      if (sign === '^') return `>=${version},<${Number(version.split('.')[0]) + 1}`;
      if (sign === '~') return `==${version.split('.').slice(0, 2).join('.')}.*,>=${version}`;
      return part;
    })
    .join(',');
}
