import {
  identityOf,
  isTable,
  mostLocked,
  otherIndex,
  type PythonLock,
  refuseLock,
  type Table,
  tablesOf,
  textIn,
  textsIn,
} from './locked-package.ts';
import { markerHolds } from './markers.ts';

/** An index that a project names explicitly, although it is the default one. */
const publicIndex = 'https://pypi.org/simple';

/**
 * Reads a `poetry.lock`: its group `main` is installed, without extras. It states no addresses: files are looked up at the index by
 * their SHA-256. Source: poetry, `packages/locker.py`.
 */
export function readPoetryLock(name: string, lock: Table): PythonLock {
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
    return {
      groups,
      isInstalled: table.optional !== true && (groups.length === 0 || groups.includes('main')),
      marker: typeof markers === 'string' ? markers : textIn(markers, 'main'),
      locked: {
        ...identityOf(name, table),
        wheels: [],
        hashes: tablesOf(name, table.files, 'files').flatMap(file => {
          const hash = textIn(file, 'hash') ?? '';
          return /^sha256:[0-9a-f]{64}$/.test(hash) ? [hash.slice('sha256:'.length)] : [];
        }),
        source: sourceOf(table.source),
      },
    };
  });
  const others = new Set(packages.flatMap(({ groups }) => groups).filter(it => it !== 'main'));
  const extras = isTable(lock.extras) ? Object.keys(lock.extras) : [];
  return {
    requiresPython: specifiersOf(textIn(metadata, 'python-versions') ?? ''),
    leftOut: [
      ...extras.map(extra => `the extra '${extra}'`),
      ...[...others].map(group => `the group '${group}'`),
    ],
    select: system =>
      packages
        .filter(({ isInstalled }) => isInstalled)
        .filter(({ marker }) => marker === undefined || markerHolds(marker, system))
        .map(({ locked }) => locked),
  };
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
