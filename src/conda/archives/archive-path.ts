import { ArchiveProblem, showPath } from './archive-problem.ts';

/** The limit of Linux. */
const maxPathBytes = 4096;
const maxNameBytes = 255;

/**
 * Returns a path of an archive without leading `./` and trailing `/`; the root is the empty string. Throws
 * {@link ArchiveProblem} for an absolute path, one with `..`, and one that cannot exist on Linux.
 */
export function checkedPath(path: string): string {
  const plain = path.replace(/^(?:\.\/+)+/, '').replace(/\/+$/, '');
  if (plain === '' || plain === '.') {
    if (path.startsWith('/') || path === '') throw unsafe(path);
    return '';
  }
  const names = plain.split('/');
  const isSafe = names.every(
    name => name !== '' && name !== '.' && name !== '..' && Buffer.byteLength(name) <= maxNameBytes,
  );
  if (!isSafe || plain.includes('\0') || Buffer.byteLength(plain) > maxPathBytes) {
    throw unsafe(path);
  }
  return plain;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

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
 * Resolves the target of a symbolic link at a path, both relative to the same root. Returns undefined for a target
 * outside the root. An absolute target is inside if it is below `root`.
 */
export function resolveLink(path: string, target: string, root: string): string | undefined {
  const isAbsolute = target.startsWith('/');
  if (isAbsolute && !`${target}/`.startsWith(`${root}/`)) return undefined;
  const names = isAbsolute ? [] : path.split('/').slice(0, -1);
  for (const name of (isAbsolute ? target.slice(root.length) : target).split('/')) {
    if (name === '' || name === '.') continue;
    if (name !== '..') names.push(name);
    else if (names.pop() === undefined) return undefined;
  }
  return names.join('/');
}

function unsafe(path: string): ArchiveProblem {
  return new ArchiveProblem(`has an unsafe path, ${showPath(path)}`);
}
