import {
  explicitLine,
  type LockEntries,
  leftOutOf,
  quoted,
  refuseLine,
  refuseLock,
} from './lock-entries.ts';
import { isOtherForm, type LockLine, lockLines, plainText } from './lock-lines.ts';

/** Returns whether a text is a lock file of pixi. */
export function isPixiLock(text: string): boolean {
  return ['version', 'environments', 'packages'].every(member =>
    new RegExp(`^${member}:`, 'm').test(text),
  );
}

// The versions that pixi has written since its packages are in their own list.
const versions = ['4', '5', '6', '7'];

/** A package that an environment lists: its kind, such as `conda` or `pypi`, and its address. */
interface Listed {
  readonly kind: string;
  readonly url: string;
  readonly at: string;
}

/**
 * Returns the entries of one platform of the environment `default`, or of the only one. Packages of pip come with their
 * digests. Throws a `Fault` (400) that names the line, the environments or the platforms. Source: pixi, The lock file;
 * rattler_lock, `parse`.
 */
export function pixiEntries(name: string, text: string, subdir: string): LockEntries {
  const environments = new Map<string, Map<string, Listed[]>>();
  const details = new Map<string, Details>();
  let version: string | undefined;
  let current: Details | undefined;
  for (const it of lockLines(text)) {
    const { path, key, value } = it;
    if (path.length === 0 && key === 'version') version = plainText(value);
    if (path[0] === 'environments') readListed(name, it, environments);
    else if (path[0] === 'packages' && path[1] === '-') {
      if (it.begins && path.length === 2) current = { members: new Map(), depends: [] };
      if (current) readDetail(name, it, current, details);
    }
  }
  if (version === undefined || !versions.includes(version)) {
    refuseLock(
      name,
      `is a pixi lock file of version ${quoted(version ?? '')}, and versions ${versions.join(', ')} can be read: lock it again with a current pixi`,
    );
  }
  const archives: LockEntries['archives'][number][] = [];
  const pip: LockEntries['pip'][number][] = [];
  for (const { kind, url, at } of listedFor(name, environments, subdir)) {
    const { members, depends } =
      details.get(url) ?? refuseLine(at, `${quoted(url)} has no entry below 'packages'`);
    if (kind === 'pypi') pip.push({ requirement: requirementOf(at, url, members), at });
    else if (kind === 'conda') {
      const sums = { md5: members.get('md5'), sha256: members.get('sha256') };
      const line = explicitLine(url, sums);
      archives.push({ line, at, depends, ...sums, size: members.get('size') });
    } else refuseLine(at, `${quoted(`${kind}: ${url}`)} is not a package of a channel or of PyPI`);
  }
  const installed = environments.has('default') ? 'default' : [...environments.keys()][0];
  const others = [...environments.keys()].filter(one => one !== installed);
  return { archives, pip, ...leftOutOf(others) };
}

interface Details {
  readonly members: Map<string, string>;
  readonly depends: string[];
}

/** Reads a line of `environments: <name>: packages: <platform>:`. */
function readListed(
  name: string,
  { path, key, value, line }: LockLine,
  environments: Map<string, Map<string, Listed[]>>,
): void {
  const [, environment, member, platform, dash] = path;
  if (environment === undefined) {
    if (key !== undefined) environments.set(key, environments.get(key) ?? new Map());
    return;
  }
  if (member !== 'packages') return;
  const platforms = environments.get(environment);
  if (platform === undefined) {
    if (key !== undefined) platforms?.set(key, platforms.get(key) ?? []);
    return;
  }
  if (dash !== '-' || path.length !== 5 || key === undefined) return;
  const at = `${name}, line ${line}`;
  checkForm(at, key, value);
  // Other members of an entry say what is extra about it.
  if (['conda', 'pypi'].includes(key) || key.startsWith('conda_')) {
    platforms?.get(platform)?.push({ kind: key, url: plainText(value), at });
  }
}

/** Reads a line of an entry of `packages`. Up to version 5 its address is `url`, later `conda` or `pypi`. */
function readDetail(
  name: string,
  { path, key, value, line }: LockLine,
  current: Details,
  details: Map<string, Details>,
): void {
  if (path.length === 4 && path[2] === 'depends' && key === undefined) {
    current.depends.push(plainText(value));
    return;
  }
  if (path.length !== 2 || key === undefined) return;
  if (['conda', 'pypi', 'url', 'md5', 'sha256', 'name'].includes(key)) {
    checkForm(`${name}, line ${line}`, key, value);
  }
  const text = plainText(value);
  current.members.set(key, text);
  if (key === 'conda' || key === 'pypi' || key === 'url') details.set(text, current);
}

function checkForm(at: string, key: string, value: string): void {
  if (!isOtherForm(value)) return;
  refuseLine(at, `${quoted(`${key}: ${value}`)} does not have the form that pixi writes`);
}

function listedFor(
  name: string,
  environments: ReadonlyMap<string, ReadonlyMap<string, readonly Listed[]>>,
  subdir: string,
): readonly Listed[] {
  const [only, ...others] = environments.values();
  const platforms = environments.get('default') ?? (others.length === 0 ? only : undefined);
  if (platforms === undefined) {
    refuseLock(
      name,
      `has no environment 'default' among ${[...environments.keys()].join(', ') || 'none'}: name the one to install 'default'`,
    );
  }
  const listed = platforms.get(subdir) ?? [];
  if (listed.some(({ kind }) => kind === 'conda')) return listed;
  const known = [...platforms].filter(([, packages]) => packages.length > 0).map(([key]) => key);
  refuseLock(
    name,
    `locks no package for ${subdir}, only for ${known.sort().join(', ') || 'no platform'}: lock it with 'pixi workspace platform add ${subdir}', or ask for another 'containerPlatform'`,
  );
}

function requirementOf(at: string, url: string, members: ReadonlyMap<string, string>): string {
  const sha256 = members.get('sha256');
  if (!/^(?:https?|git\+https?):\/\//.test(url)) {
    refuseLine(
      at,
      `${quoted(url)} is a file of the machine where it was locked: publish the package`,
    );
  }
  const project = members.get('name') ?? refuseLine(at, `${quoted(url)} has no name`);
  return `${project} @ ${url}${sha256 === undefined || url.includes('#') ? '' : `#sha256=${sha256}`}`;
}
