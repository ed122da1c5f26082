import type { CondaPackage } from '../conda-package.ts';
import { condaLockEntries, isCondaLockYml } from './conda-lock-entries.ts';
import { explicitEntries, isExplicitLock } from './explicit-entries.ts';
import {
  type LockEntries,
  type LockedArchive,
  quoted,
  refuseLine,
  refuseLock,
} from './lock-entries.ts';
import { packageOfUrl } from './package-of-url.ts';
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
export function lockedPackage({
  line,
  at,
  md5,
  sha256,
  size,
  depends,
}: LockedArchive): CondaPackage {
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
