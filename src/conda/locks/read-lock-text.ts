import { hasPathToken } from '../channels/channel-address.ts';
import type { CondaPackage } from '../conda-package.ts';
import {
  explicitEntries,
  explicitLine,
  isExplicitLock,
  type LockEntries,
  type LockedArchive,
  leftOutOf,
  quoted,
  refuseLine,
  refuseLock,
} from './lock-entries.ts';
import { isOtherForm, lockLines, plainText } from './lock-lines.ts';
import { isPixiLock, pixiEntries } from './pixi-entries.ts';

/** What a lock file lists for one platform. */
export interface LockedPackages {
  readonly packages: readonly CondaPackage[];
  /** Requirements for pip. */
  readonly pip: readonly string[];
}

/** The largest lock file that is read, in characters: about 10,000 packages. */
export const maxLockLength = 4 * 1024 * 1024;
const maxPackages = 10_000;

/** Returns whether a text is a lock file of a form that is known. */
export function isLockText(text: string): boolean {
  return isExplicitLock(text) || isCondaLockYml(text) || isPixiLock(text);
}

/**
 * Returns the entries of one platform of a lock file: explicit, of conda-lock or of pixi. Throws a `Fault` (400) for other
 * texts, and for a file that has no package for the platform. Ignores a byte order mark at the beginning.
 *
 * @param name what the file is called in messages: a field of a request, or an address
 * @param subdir `linux-64` or `linux-aarch64`
 */
export function readLockEntries(name: string, sent: string, subdir: string): LockEntries {
  const text = sent.replace(/^\ufeff/, '');
  if (text.length > maxLockLength) {
    refuseLock(name, `has more than ${maxLockLength / 1024 / 1024} million characters`);
  }
  if (isCondaLockYml(text)) return condaLockEntries(name, text, subdir);
  if (isExplicitLock(text)) return explicitEntries(name, text, subdir);
  if (isPixiLock(text)) return pixiEntries(name, text, subdir);
  refuseLock(
    name,
    'is not a lock file: send an explicit lock file with a line @EXPLICIT, a conda-lock.yml or a pixi.lock',
  );
}

/**
 * Returns the packages of one platform of a lock file. Throws a `Fault` (400) as {@link readLockEntries} does, and for a
 * package of another platform or that is listed twice.
 */
export function readLockText(text: string, subdir: string, name = 'lock file'): LockedPackages {
  const { archives, pip } = readLockEntries(name, text, subdir);
  if (archives.length > maxPackages) refuseLock(name, `lists more than ${maxPackages} packages`);
  const found = new Map<string, string>();
  const packages = archives.map(archive => {
    const it = lockedPackage(archive);
    const { at } = archive;
    if (it.subdir !== subdir && it.subdir !== 'noarch') {
      refuseLine(
        at,
        `${it.fileName} is for ${it.subdir}, but the image is for ${subdir}: lock the packages for that platform`,
      );
    }
    const other = found.get(it.name);
    if (other !== undefined) refuseLine(at, `${it.fileName} is locked as well as ${other}`);
    found.set(it.name, it.fileName);
    return it;
  });
  return { packages, pip: pip.map(({ requirement }) => requirement) };
}

/** Returns the package of an entry, with all digests that it states. Throws a `Fault` (400). */
function lockedPackage({ line, at, md5, sha256, size, depends }: LockedArchive): CondaPackage {
  const it = packageOfUrl(line, at);
  checkDigest(at, md5, 32);
  checkDigest(at, sha256, 64);
  const bytes = Number(size);
  return {
    ...it,
    md5: md5 ?? it.md5,
    sha256: sha256 ?? it.sha256,
    ...(Number.isSafeInteger(bytes) && bytes > 0 ? { size: bytes } : {}),
    depends: depends ?? it.depends,
  };
}

/** Throws a `Fault` (400) for a text that is not a digest of so many digits. */
export function checkDigest(at: string, digest: string | undefined, digits: number): void {
  if (digest === undefined || (digest.length === digits && /^[0-9a-f]*$/.test(digest))) return;
  refuseLine(at, `${quoted(digest)} is not a digest of ${digits} lower-case hex digits`);
}

const archiveName =
  /^(?<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)-(?<version>[A-Za-z0-9_.!+]+)-(?<build>[A-Za-z0-9_.+]+?)(?:\.conda|\.tar\.bz2)$/;
const subdirName = /^(?:noarch|[a-z]+-[a-z0-9_]+)$/;
const maxLength = 8192;

/**
 * Returns the package of a line of an explicit lock file: the URL of an archive, usually with `#` and its MD5 or SHA-256.
 * Throws a `Fault` (400) for another text. Source: conda, Building identical conda environments; CEP 26 (names).
 *
 * @param at the place of the line, for messages
 */
export function packageOfUrl(text: string, at = 'packages'): CondaPackage {
  const hash = text.indexOf('#');
  const url = hash < 0 ? text : text.slice(0, hash);
  const [subdir = '', fileName = ''] = pathOf(url, at).split('/').slice(-2).map(decoded);
  const { name, version, build } = archiveName.exec(fileName)?.groups ?? {};
  if (name === undefined || version === undefined || build === undefined) {
    refuseLine(
      at,
      `${quoted(url)} is not the address of a Conda package: it ends with /<subdirectory>/<name>-<version>-<build>.conda`,
    );
  }
  if (!subdirName.test(subdir)) {
    refuseLine(at, `${quoted(url)} has no subdirectory such as linux-64 or noarch before its name`);
  }
  const checksum = hash < 0 ? '' : text.slice(hash + 1).replace(/^(?:md5|sha256):/, '');
  if (hash >= 0 && !/^[0-9a-f]{32}(?:[0-9a-f]{32})?$/.test(checksum)) {
    refuseLine(at, `${quoted(text.slice(hash))} is not an MD5 or SHA-256 in lower-case hex`);
  }
  return {
    name: name.toLowerCase(),
    version,
    build,
    subdir,
    fileName,
    url,
    buildNumber: Number(/_(\d{1,9})$/.exec(build)?.[1] ?? 0),
    ...(checksum.length === 32 ? { md5: checksum } : {}),
    ...(checksum.length === 64 ? { sha256: checksum } : {}),
    depends: [],
  };
}

/** Returns the path of a web address. Throws a `Fault` for other addresses, and for credentials: a lock file is not secret. */
function pathOf(url: string, at: string): string {
  if (hasPathToken(url)) refuseSecret(at);
  if (!/^https?:\/\/[\x21-\x7e]+$/i.test(url) || url.length > maxLength || !URL.canParse(url)) {
    refuseLine(at, `${quoted(url)} is not an http or https address`);
  }
  const { username, password, pathname } = new URL(url);
  if (username !== '' || password !== '' || hasPathToken(pathname)) refuseSecret(at);
  return pathname;
}

function refuseSecret(at: string): never {
  refuseLine(
    at,
    'the address contains credentials: remove them, and ask the operator to configure the channel',
  );
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns whether a text is a conda-lock file of version 1. */
function isCondaLockYml(text: string): boolean {
  return ['version', 'metadata', 'package'].every(member =>
    new RegExp(`^${member}:`, 'm').test(text),
  );
}

type Members = ReadonlyMap<string, string>;

/**
 * Returns the entries of one platform of a conda-lock file. Omits packages of optional categories. Throws a `Fault` (400)
 * with the line. Source: conda-lock, unified lock file.
 */
function condaLockEntries(name: string, text: string, subdir: string): LockEntries {
  const archives: LockEntries['archives'][number][] = [];
  const pip: LockEntries['pip'][number][] = [];
  const platforms = new Set<string>();
  const leftOut = new Set<string>();
  for (const { line, members } of packagesIn(name, text)) {
    const at = `${name}, line ${line}`;
    const platform =
      members.get('platform') ?? refuseLine(at, 'the package does not name a platform');
    platforms.add(platform);
    const isOptional = members.get('optional') === 'true';
    if (platform !== subdir) continue;
    if (isOptional) {
      leftOut.add(members.get('category') ?? 'optional');
      continue;
    }
    const url = members.get('url') ?? refuseLine(at, 'the package has no address');
    const sha256 = members.get('hash.sha256');
    if (members.get('manager') === 'pip') {
      // That of a repository is its commit.
      const hasHash = sha256 !== undefined && !url.startsWith('git+');
      const hash = hasHash ? `#sha256=${sha256}` : '';
      pip.push({ requirement: `${members.get('name')} @ ${url}${hash}`, at });
    } else {
      const sums = { md5: members.get('hash.md5'), sha256 };
      archives.push({ line: explicitLine(url, sums), ...sums, at });
    }
  }
  if (archives.length > 0) return { archives, pip, ...leftOutOf(leftOut) };
  const known = [...platforms].sort().join(', ');
  refuseLock(
    name,
    `locks no package for ${subdir}, only for ${known || 'no platform'}: lock it with 'conda-lock -p ${subdir}', or ask for another 'containerPlatform'`,
  );
}

/** Yields the entries of the list `package`, each with its members; members of `hash` are named `hash.md5` and so on. */
function* packagesIn(
  name: string,
  text: string,
): Generator<{ readonly line: number; readonly members: Members }> {
  let current: { line: number; members: Map<string, string> } | undefined;
  for (const { line, path, key, value, begins } of lockLines(text)) {
    if (path[0] !== 'package' || path[1] !== '-') continue;
    if (begins && path.length === 2) {
      if (current) yield current;
      current = { line, members: new Map() };
    }
    if (key === undefined || !current) continue;
    const isHash = path.length === 3 && path[2] === 'hash';
    if (path.length > 2 && !isHash) continue;
    if (isOtherForm(value) && ['name', 'url', 'platform', 'manager', 'hash'].includes(key)) {
      refuseLine(
        `${name}, line ${line}`,
        `${quoted(`${key}: ${value}`)} does not have the form that conda-lock writes`,
      );
    }
    current.members.set(isHash ? `hash.${key}` : key, plainText(value));
  }
  if (current) yield current;
}
