import { TarError } from '../../archives/index.ts';
import { maxNameBytes, maxPathBytes } from '../../archives/tar-limits.ts';
import { Fault, isDiskFull } from '../../foundation/fault.ts';
import { withoutSlashes } from '../../foundation/text.ts';

/** A damaged or harmful archive of a package. The message completes a sentence that names the archive. */
export class ArchiveProblem extends Error {}

/** An archive takes more memory than those that are unpacked side by side. */
export class LargeArchive extends Error {}

/**
 * Returns a {@link Fault} for an archive that cannot be installed: for a full disk, a problem, or a malformed tar file. Returns
 * every other error as it is.
 *
 * @param describe returns what is wrong with the archive and what to do
 */
export function archiveFault(
  error: unknown,
  fileName: string,
  describe: (problem: string) => string,
): unknown {
  if (isDiskFull(error)) {
    return new Fault('storage-full', `Cannot unpack ${fileName}: the disk of the server is full`, {
      phase: 'build',
      cause: error,
    });
  }
  if (!(error instanceof ArchiveProblem || error instanceof TarError)) return error;
  return new Fault('upstream-unusable', `Cannot install ${fileName}: ${describe(error.message)}`, {
    phase: 'build',
    cause: error,
  });
}

/** Formats a path of an archive for a message: short, quoted, without control characters. */
export function showPath(path: string): string {
  return JSON.stringify(path.length > 120 ? `${path.slice(0, 120)}...` : path);
}

/** How large an archive of a package may be, unpacked. */
export interface ArchiveLimits {
  /** Bytes of all files together. */
  readonly unpackedBytes: number;
  /** Bytes of all files together for each byte of the archive. Applies above {@link freeBytes}. */
  readonly ratio: number;
  /** Unpacked bytes to which {@link ratio} does not apply. */
  readonly freeBytes: number;
  /** Files, links and directories; also the directories that are made for them. */
  readonly entries: number;
  /** Bytes of a list of files, such as `info/paths.json`. */
  readonly documentBytes: number;
  /** Occurrences of the prefix in one file. */
  readonly occurrences: number;
}

const mebibyte = 1024 * 1024;

/**
 * The largest packages of the public channels have a tenth of each, and two thirds of the entries. With more entries, a server
 * needs more than 300 MiB.
 */
export const archiveLimits: ArchiveLimits = {
  unpackedBytes: 32 * 1024 * mebibyte,
  ratio: 200,
  freeBytes: 1024 * mebibyte,
  entries: 75_000,
  documentBytes: 64 * mebibyte,
  occurrences: 1_000_000,
};

/** Base 2 logarithm of the largest zstd window: what level 22, the highest, requires. */
export const maxWindowLog = 27;

/** Files, links and directories of an archive that is unpacked beside others: they take about 600 bytes each. */
export const usualEntries = 25_000;

/**
 * Returns a path of an archive without leading `./` and trailing `/`; the root is the empty string. Throws
 * {@link ArchiveProblem} for an absolute path, one with `..`, and one that cannot exist on Linux.
 */
export function checkedPath(path: string): string {
  const plain = withoutSlashes(path.replace(/^(?:\.\/+)+/, ''));
  if (plain === '' || plain === '.') {
    if (path.startsWith('/') || path === '') throw unsafePath(path);
    return '';
  }
  const names = plain.split('/');
  const isSafe = names.every(
    name => name !== '' && name !== '.' && name !== '..' && Buffer.byteLength(name) <= maxNameBytes,
  );
  // JSON may have half of a character, which no name on Linux has.
  const isName = plain.isWellFormed() && !plain.includes('\0');
  if (!isSafe || !isName || Buffer.byteLength(plain) > maxPathBytes) {
    throw unsafePath(path);
  }
  return plain;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Throws {@link ArchiveProblem} for a path in the environment that is too long for Linux together with its prefix. */
export function checkLength(path: string, full: string): void {
  // A character has up to three bytes.
  if (full.length * 3 >= maxPathBytes && Buffer.byteLength(full) >= maxPathBytes)
    throw unsafePath(path);
}

/** Returns the text of a name with one character for each byte. Throws {@link ArchiveProblem} if it is not UTF-8. */
export function textOf(bytes: string): string {
  try {
    return decoder.decode(Buffer.from(bytes, 'latin1'));
  } catch {
    throw new ArchiveProblem(
      `has an entry whose name is not valid UTF-8, ${showPath(Buffer.from(bytes, 'latin1').toString())}`,
    );
  }
}

/**
 * Checks the target of a symbolic link. It may lead anywhere, since nothing is read or written through it. Throws
 * {@link ArchiveProblem} for a target that a link cannot have on Linux.
 */
export function checkTarget(path: string, target: string): void {
  const length = Buffer.byteLength(target);
  if (length > 0 && length < maxPathBytes) return;
  throw new ArchiveProblem(
    `has a link ${showPath(path)} with an impossible target, ${showPath(target)}`,
  );
}

/** Returns the path that a symbolic link of an archive leads to; undefined for one outside the archive. */
export function resolveLink(path: string, target: string): string | undefined {
  if (target.startsWith('/')) return undefined;
  const names = path.split('/').slice(0, -1);
  for (const name of target.split('/')) {
    if (name === '' || name === '.') continue;
    if (name !== '..') names.push(name);
    else if (names.pop() === undefined) return undefined;
  }
  return names.join('/');
}

function unsafePath(path: string): ArchiveProblem {
  return new ArchiveProblem(`has an unsafe path, ${showPath(path)}`);
}
