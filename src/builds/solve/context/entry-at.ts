import type { FileTree, TreeEntry } from '../../../buildkit/index.ts';

/**
 * Returns the entry at a path of a build context. Returns undefined if nothing is there.
 *
 * @param path a normalised path below the root of the tree
 */
export async function entryAt(tree: FileTree, path: string): Promise<TreeEntry | undefined> {
  const parts = path.split('/').filter(part => part !== '' && part !== '.');
  let found: TreeEntry | undefined;
  for (const [depth, part] of parts.entries()) {
    if (depth > 0 && found?.kind !== 'directory') return undefined;
    const entries = await tree.list(parts.slice(0, depth).join('/'));
    found = entries.find(({ name }) => name === part);
  }
  return found;
}
