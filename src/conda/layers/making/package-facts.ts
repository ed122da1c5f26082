import { hash } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { InstalledPackage } from '../../installing/installed-package.ts';

/** What is kept about a package whose layer was made. Its paths are kept apart: they are read seldom. */
export type PackageFacts = Pick<InstalledPackage, 'index' | 'about' | 'variables' | 'linkScripts'>;

/** Packs paths for a row. Takes some milliseconds for a large package: for a thread. */
export function packPaths(paths: readonly string[]): Buffer {
  return deflateRawSync(paths.join('\0'));
}

/** Returns packed paths. */
export function unpackPaths(packed: Uint8Array): string[] {
  const text = inflateRawSync(packed).toString();
  return text === '' ? [] : text.split('\0');
}

/** Bytes of a hash in {@link hashPaths}. */
export const pathHashBytes = 6;

/**
 * Returns six bytes for each path, in their order, and then for each directory above them. Paths that differ rarely have
 * the same ones. The last bit is 1 for a directory.
 */
export function hashPaths(paths: readonly string[]): Buffer {
  const directories = new Set<string>();
  for (const path of paths) {
    for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
      const directory = path.slice(0, at);
      if (directories.has(directory)) break;
      directories.add(directory);
    }
  }
  const hashes = Buffer.alloc((paths.length + directories.size) * pathHashBytes);
  let position = 0;
  const add = (path: string, lastBit: 0 | 1) => {
    hash('sha256', path, 'buffer').copy(hashes, position, 0, pathHashBytes);
    position += pathHashBytes;
    hashes[position - 1] = ((hashes[position - 1] ?? 0) & 0xfe) | lastBit;
  };
  for (const path of paths) add(path, 0);
  for (const directory of directories) add(directory, 1);
  return hashes;
}
