import type { FileTree } from '../../../buildkit/index.ts';

/**
 * Date of everything that a build makes, in seconds since the epoch: 2025-01-01. The same recipe gives the same bytes
 * at any time. Zip files cannot hold dates before 1980, in any time zone. Most packages that a step installs are older:
 * their files keep their own dates.
 */
export const buildTime = Date.UTC(2025, 0, 1) / 1000;

/** Returns the same files, all with the date of a build: a build context has no dates. */
export function datedTree(tree: FileTree): FileTree {
  const mtimeMs = buildTime * 1000;
  return {
    list: async directory => (await tree.list(directory)).map(entry => ({ ...entry, mtimeMs })),
    read: path => tree.read(path),
  };
}
