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
export interface LockedRequirement {
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
