import { isCommitId, readGitAddress } from '../repositories/git-address.ts';
import { type GitCommit, projectName, type WheelFile } from '../wheel-file.ts';
import type { MarkerSystem } from './markers.ts';
import { isTable, refuseLock, type Table, textIn } from './toml-table.ts';

/** A Python lock file, of any form. */
export interface PythonLock {
  /** What it requires of Python, such as `>=3.9`; undefined for nothing. */
  readonly requiresPython: string | undefined;
  /** Extras and groups that are not installed, as a person calls them. */
  readonly leftOut: readonly string[];
  /** Returns the packages that are installed on a system. Throws a `Fault` (400). */
  select(system: MarkerSystem): readonly LockedPackage[];
}

/** A package that a lock file pins. */
export interface LockedPackage {
  /** As indexes compare it. */
  readonly name: string;
  readonly version: string;
  readonly wheels: readonly WheelFile[];
  /** SHA-256 of all files, where the lock file has no addresses: they are looked up at the index. */
  readonly hashes?: readonly string[] | undefined;
  /** What it is made of, where that is not a wheel, such as `a git repository`; absent for none. */
  readonly source?: string | undefined;
  /** The commit that it is built from; absent for one with wheels or hashes. */
  readonly commit?: GitCommit | undefined;
}

/** The source of a package that is not looked up, since it is at another index than others. */
export const otherIndex = 'another index';

/** Limits of a lock file. */
export const mostLocked = 2000;
const mostWheels = 50_000;

/** Returns the tables of a list; empty for a member that is absent. Throws a `Fault` (400) for any other value. */
export function tablesOf(name: string, value: unknown, what: string): readonly Table[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || !value.every(isTable)) {
    refuseLock(name, `'${what}' is not a list of tables: make the lock file again`);
  }
  if (value.length > mostWheels) refuseLock(name, `'${what}' has too many entries`);
  return value;
}

// Real wheels have at most eight.
const mostTags = 64;

/** Returns the number of systems that the name of a wheel lists: each is compared with that of the image. */
function tagsIn(fileName: string): number {
  const parts = fileName.split('-').slice(-3);
  return parts.reduce((product, part) => product * part.replace(/\.whl$/, '').split('.').length, 1);
}

const nameGrammar = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?$/;
const versionGrammar = /^[A-Za-z0-9.!+_-]{1,200}$/;

/** Returns the name and version of a package. Throws a `Fault` (400) for a text that is neither. */
export function identityOf(name: string, table: Table): { name: string; version: string } {
  const [project = '', version = '0'] = [textIn(table, 'name'), textIn(table, 'version')];
  if (!nameGrammar.test(project) || !versionGrammar.test(version)) {
    refuseLock(
      name,
      'a package has no name and version that can be read: make the lock file again',
    );
  }
  return { name: projectName(project), version };
}

/**
 * Returns a wheel of a lock file; undefined for one without an address or a SHA-256. Throws a `Fault` (400) for an address with
 * credentials, which is not shown.
 */
export function lockedWheel(
  name: string,
  of: { name: string; version: string },
  { url, sha256, size }: { url: unknown; sha256: unknown; size: unknown },
): WheelFile | undefined {
  if (typeof url !== 'string' || typeof sha256 !== 'string') return undefined;
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) return undefined;
  const { pathname, username, password } = new URL(url);
  if (username !== '' || password !== '') {
    refuseLock(name, `the address of ${of.name} contains credentials: remove them`);
  }
  const fileName = pathname.slice(pathname.lastIndexOf('/') + 1).replaceAll('%2B', '+');
  if (!/^[A-Za-z0-9._+!-]{1,300}\.whl$/.test(fileName) || !/^[0-9a-f]{64}$/.test(sha256)) {
    return undefined;
  }
  if (tagsIn(fileName) > mostTags) return undefined;
  const address = url.replace(/#.*$/s, '');
  return {
    ...of,
    fileName,
    url: address,
    sha256,
    ...(typeof size === 'number' && Number.isSafeInteger(size) && size > 0 ? { size } : {}),
  };
}

/**
 * Returns the commit of a package of a git repository; undefined for what cannot be built. Throws a `Fault` (400) for an address with
 * credentials, which is not shown.
 */
export function lockedCommit(
  name: string,
  of: { name: string },
  { url, id, subdirectory }: { url: unknown; id: unknown; subdirectory: unknown },
): GitCommit | undefined {
  if (typeof url !== 'string' || typeof id !== 'string' || !isCommitId(id)) return undefined;
  if (/^[a-z+]{1,20}:\/\/[^/]*@/.test(url)) {
    refuseLock(name, `the address of ${of.name} contains credentials: remove them`);
  }
  const folder = typeof subdirectory === 'string' && subdirectory !== '' ? subdirectory : undefined;
  const found = readGitAddress(
    `git+${url}@${id}${folder === undefined ? '' : `#subdirectory=${folder}`}`,
  );
  return found && { url: found.url, id, subdirectory: found.subdirectory };
}
