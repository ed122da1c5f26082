import { createHash } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { InstalledPackage } from '../../installing/installed-package.ts';

/** What is kept about a package whose layer was made. Its paths are kept apart: they are read seldom. */
export type PackageFacts = Pick<InstalledPackage, 'index' | 'about' | 'variables' | 'linkScripts'>;

const hashBytes = 6;

/** Packs paths for a row. Takes some milliseconds for a large package: for a thread. */
export function packPaths(paths: readonly string[]): Buffer {
  return deflateRawSync(paths.join('\0'));
}

/** Returns packed paths. */
export function unpackPaths(packed: Uint8Array): string[] {
  const text = inflateRawSync(packed).toString();
  return text === '' ? [] : text.split('\0');
}

/** Returns six bytes for each path: paths that differ rarely have the same ones. */
export function hashPaths(paths: readonly string[]): Buffer {
  const hashes = Buffer.alloc(paths.length * hashBytes);
  for (const [at, path] of paths.entries()) {
    createHash('sha256')
      .update(path)
      .digest()
      .copy(hashes, at * hashBytes, 0, hashBytes);
  }
  return hashes;
}

/** Returns the positions of the packages that may have a path in common with another one. */
export async function mayShareAPath(
  packages: readonly { readonly pathHashes: Buffer | null }[],
  pause: () => Promise<void>,
): Promise<Set<number>> {
  const owners = new Map<number, number>();
  const found = new Set<number>();
  for (const [position, { pathHashes }] of packages.entries()) {
    for (let at = 0; pathHashes && at < pathHashes.length; at += hashBytes) {
      const hash = pathHashes.readUIntBE(at, hashBytes);
      const owner = owners.get(hash);
      if (owner === undefined) owners.set(hash, position);
      else if (owner !== position) found.add(owner).add(position);
    }
    await pause();
  }
  return found;
}
