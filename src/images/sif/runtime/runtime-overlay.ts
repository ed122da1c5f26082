import { type ImageTree, partsOf } from '../layers/tree.ts';
import { bytesOf } from '../tar/tar-entry.ts';
import type { SifEntry } from './runtime-files.ts';

/**
 * Adds files to the tree of an image, above all its layers. Follows symbolic links in their paths, as in an
 * unpacked image.
 *
 * @param layer a number greater than those of the layers
 * @param mtime seconds since the epoch
 */
export function addRuntimeFiles(
  tree: ImageTree,
  entries: readonly SifEntry[],
  layer: number,
  mtime: number,
): void {
  for (const { path, kind, mode, content, target = '' } of entries) {
    const parts = partsOf(bytesOf(path));
    const name = parts.pop() ?? '';
    const parent = tree.make(parts, layer, mtime);
    if (kind !== 'file' && parent.children?.has(name)) continue;
    const bytes = kind === 'file' ? (content ?? Buffer.alloc(0)) : undefined;
    const inode = { kind, mode, mtime, size: bytes?.length ?? 0, bytes, target: bytesOf(target) };
    tree.put(parent, name, { ...inode, layer, entry: 0, device: undefined }, layer);
  }
}
