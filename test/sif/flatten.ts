import { TarReader } from '../../src/archives/tar-reader.ts';
import { applyEntry, ImageTree, pathOf, type TreeNode } from '../../src/images/sif/layers/tree.ts';
import { type TarPart, tarOf } from './tar-file.ts';

/** What a path is: kind and mode, and the layer and entry that a file's content is in. */
export type Flat = Readonly<Record<string, string>>;

/** The files that layers make together; the root is not among them. */
export function flatten(layers: readonly (readonly TarPart[])[], maxEntries = 10_000): Flat {
  const tree = new ImageTree(maxEntries);
  for (const [layer, parts] of layers.entries()) {
    let entry = 0;
    const reader = new TarReader({
      entry(tarEntry) {
        applyEntry(tree, tarEntry, layer, entry++);
        return false;
      },
      content() {},
    });
    reader.write(tarOf(parts));
    reader.end();
  }
  const nodes = nodesBelow(tree.root);
  return Object.fromEntries(nodes.map(node => [pathOf(node), about(node)]));
}

function nodesBelow({ children }: TreeNode): TreeNode[] {
  return [...(children?.values() ?? [])].flatMap(child => [child, ...nodesBelow(child)]);
}

function about({ inode }: TreeNode): string {
  const { kind, mode, layer, entry, target } = inode;
  if (kind === 'symlink') return `symlink ${target}`;
  const octal = mode.toString(8);
  return kind === 'file' ? `file ${octal} ${layer}:${entry}` : `${kind} ${octal}`;
}
