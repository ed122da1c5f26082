import { Fault } from '../../foundation/fault.ts';

/** What a lock file lists for one platform, as it is written. */
export interface LockEntries {
  readonly archives: readonly LockedArchive[];
  readonly pip: readonly LockedRequirement[];
  /** Categories or environments of the file whose packages are not among these, sorted; absent for none. */
  readonly leftOut?: readonly string[] | undefined;
}

/** A Conda package of a lock file. */
export interface LockedArchive {
  /** Its address and `#` with its MD5 or SHA-256, as in an explicit lock file. */
  readonly line: string;
  readonly md5?: string | undefined;
  readonly sha256?: string | undefined;
  /** Bytes, as a text. */
  readonly size?: string | undefined;
  /** Match specifications, where the form has them. */
  readonly depends?: readonly string[] | undefined;
  /** The place in the file, for messages. */
  readonly at: string;
}

/** A package of a lock file for pip. */
interface LockedRequirement {
  readonly requirement: string;
  readonly at: string;
}

/** Throws the {@link Fault} (400) for a lock file that cannot be used. */
export function refuseLock(at: string, reason: string): never {
  throw new Fault('bad-request', `'${at}' ${reason}`, { phase: 'request' });
}

/** Throws the {@link Fault} (400) for a line that cannot be used. */
export function refuseLine(at: string, reason: string): never {
  throw new Fault('bad-request', `'${at}': ${reason}`, { phase: 'request' });
}

/** Returns the line of an explicit lock file: with the MD5 where it is known, which every installer reads. */
export function explicitLine(url: string, { md5, sha256 }: Pick<LockedArchive, 'md5' | 'sha256'>) {
  const digest = md5 ?? sha256;
  return digest === undefined ? url : `${url}#${digest}`;
}

// A message names as many.
const mostLeftOut = 10;

/** Returns the names for {@link LockEntries.leftOut}. */
export function leftOutOf(names: Iterable<string>): Pick<LockEntries, 'leftOut'> {
  const found = [...names].map(quoted).sort().slice(0, mostLeftOut);
  return found.length === 0 ? {} : { leftOut: found };
}

/** Returns a text of a lock file for use in a message: short, on one line. */
export function quoted(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?');
  return plain.length > 80 ? `'${plain.slice(0, 80)}...'` : `'${plain}'`;
}

const explicitMark = '@EXPLICIT';

/** Returns whether a text is an explicit lock file: it has a line `@EXPLICIT`. */
export function isExplicitLock(text: string): boolean {
  return /^@EXPLICIT\s*$/m.test(text);
}

/** Returns whether an explicit lock file has a part for each of several platforms. */
export function hasParts(text: string): boolean {
  return (text.match(/^@EXPLICIT\s*$/gm)?.length ?? 0) > 1;
}

/**
 * Returns the entries of an explicit lock file. Lines `# pip <requirement>`, as conda-lock writes them, list packages that
 * pip then installs without dependencies. A file with several lines `@EXPLICIT` has a part for each platform, that a comment
 * `# platform: <platform>` names. Throws a `Fault` (400) that names the line. Source: conda, Building identical conda
 * environments; conda-lock, explicit files.
 */
export function explicitEntries(name: string, text: string, subdir: string): LockEntries {
  const archives: LockEntries['archives'][number][] = [];
  const pip: LockEntries['pip'][number][] = [];
  const lines = text.split('\n').map(line => line.trim());
  const isParted = hasParts(text);
  const platforms = new Set<string>();
  let platform: string | undefined;
  let isExplicit = false;
  for (const [position, line] of lines.entries()) {
    const at = `${name}, line ${position + 1}`;
    const stated = /^# platform: *([a-z0-9_-]+)$/.exec(line)?.[1];
    if (stated !== undefined) {
      platform = stated;
      platforms.add(stated);
    }
    const isOther = isParted && platform !== subdir;
    if (line === explicitMark) isExplicit = true;
    else if (line.startsWith('# pip ')) {
      if (!isOther) pip.push({ requirement: line.slice(6), at });
    } else if (line === '' || line.startsWith('#')) continue;
    else if (!isExplicit) {
      refuseLine(at, `${quoted(line)} comes before ${explicitMark}: move it below`);
    } else if (!isOther) archives.push({ line, at });
  }
  if (archives.length > 0) return { archives, pip };
  if (!isParted) refuseLock(name, `locks no package: list their URLs below ${explicitMark}`);
  const known = [...platforms].sort().join(', ');
  refuseLock(
    name,
    `locks no package for ${subdir}, only for ${known || 'platforms that no comment names'}: ask for another 'containerPlatform'`,
  );
}
