import {
  checkDigest,
  hasParts,
  isExplicitLock,
  type LockedArchive,
  readLockEntries,
} from '../../../conda/locks/index.ts';
import { isUrl, refuse, shown, tokenFreeUrl } from '../text/text-field.ts';
import type {
  CondaLock,
  CondaLocks,
  CondaLockUrl,
  CondaSource,
  PlatformLock,
} from './conda-source.ts';
import { isPackageUrl, readPackageUrl, readPipRequirement } from './package-spec.ts';

/** Returns whether an item is the address of a lock file and not a package. */
export function isLockUrl(item: string): boolean {
  const text = item.trim();
  return /^https?:\/\//i.test(text) && isUrl(text) && !text.includes('::') && !isPackageUrl(text);
}

/**
 * Reads the packages of each platform from a lock file: explicit, of conda-lock or of pixi. Throws a `Fault` (400) that
 * names the line, or the platform that the file does not lock.
 *
 * @param subdirs the platforms of the build, by their conda names
 */
export function readLockFile(
  field: string,
  text: string,
  subdirs: readonly string[],
): CondaLock | CondaLocks {
  const [first = '', ...others] = subdirs;
  // One part may be for several platforms: packages for no architecture are.
  const isForOne = !isExplicitLock(text) || hasParts(text);
  if (others.length === 0 || !isForOne) {
    const { subdir: _, ...lock } = platformLock(field, text, first);
    return { form: 'lock', ...lock };
  }
  const platforms = subdirs.toSorted().map(subdir => platformLock(field, text, subdir));
  return { form: 'locks', platforms };
}

function platformLock(field: string, text: string, subdir: string): PlatformLock {
  const { archives, pip, leftOut } = readLockEntries(field, text, subdir);
  const sha256s = archives.map(sha256Beside);
  return {
    subdir,
    urls: archives.map(({ at, line }) => readPackageUrl(at, line)),
    ...(sha256s.some(sum => sum !== '') ? { sha256s } : {}),
    pip: pip.map(({ at, requirement }) => readPipRequirement(at, requirement)),
    ...(leftOut ? { leftOut } : {}),
  };
}

/** Returns the SHA-256 of a package whose line has its MD5, which every installer reads; an empty text for others. */
function sha256Beside({ at, md5, sha256 }: LockedArchive): string {
  if (md5 === undefined || sha256 === undefined) return '';
  checkDigest(at, sha256, 64);
  return sha256;
}

/** Reads the address of a lock file: http or https, not a git repository. Throws a `Fault`. */
export function readLockUrl(field: string, text: string): CondaLockUrl {
  const url = tokenFreeUrl(field, text, ['http', 'https']);
  if (/\.git(?:[?#].*)?$/s.test(url))
    refuse(
      `'${field}': ${shown(url)} is a git repository: write the address of the lock file itself`,
    );
  return { form: 'lockUrl', url };
}

const unreadLock =
  /(?:\/(?:pixi\.lock|uv\.lock|poetry\.lock|[^/]*\.toml|requirements[^/]*\.txt)$|[?&]format=pixi\b)/;

/** Throws a `Fault` for the address of a lock file that the package manager of a builder does not read. */
export function requireBuilderReads({ wanted }: Pick<CondaSource, 'wanted'>): void {
  if (wanted.form !== 'lockUrl' || !unreadLock.test(wanted.url)) return;
  refuse(
    `A builder makes this image, and it cannot read the file at ${shown(wanted.url)}: send the content of the file in 'packages.environment'`,
  );
}
