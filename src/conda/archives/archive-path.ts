import { maxNameBytes, maxPathBytes } from '../../archives/tar-limits.ts';
import { withoutSlashes } from '../../foundation/text/trim.ts';
import { ArchiveProblem, showPath } from './archive-problem.ts';

/**
 * Returns a path of an archive without leading `./` and trailing `/`; the root is the empty string. Throws
 * {@link ArchiveProblem} for an absolute path, one with `..`, and one that cannot exist on Linux.
 */
export function checkedPath(path: string): string {
  const plain = withoutSlashes(path.replace(/^(?:\.\/+)+/, ''));
  if (plain === '' || plain === '.') {
    if (path.startsWith('/') || path === '') throw unsafe(path);
    return '';
  }
  const names = plain.split('/');
  const isSafe = names.every(
    name => name !== '' && name !== '.' && name !== '..' && Buffer.byteLength(name) <= maxNameBytes,
  );
  // JSON may have half of a character, which no name on Linux has.
  const isName = plain.isWellFormed() && !plain.includes('\0');
  if (!isSafe || !isName || Buffer.byteLength(plain) > maxPathBytes) {
    throw unsafe(path);
  }
  return plain;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Throws {@link ArchiveProblem} for a path in the environment that is too long for Linux together with its prefix. */
export function checkLength(path: string, full: string): void {
  // A character has up to three bytes.
  if (full.length * 3 >= maxPathBytes && Buffer.byteLength(full) >= maxPathBytes)
    throw unsafe(path);
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

function unsafe(path: string): ArchiveProblem {
  return new ArchiveProblem(`has an unsafe path, ${showPath(path)}`);
}
