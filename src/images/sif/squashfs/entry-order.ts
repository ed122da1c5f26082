import { pauseTurn } from '../../../foundation/pause-turn.ts';
import type { TreeNode } from '../layers/tree.ts';

/** Sorting the files of this many entries takes about a millisecond. */
const groupEntries = 2048;
const nodesPerTurn = 2048;

/**
 * Returns the nodes of one layer in the order of their entries; the names of one entry keep their order. Yields to
 * other work in between: a layer may have millions of files.
 */
export async function inEntryOrder(nodes: readonly TreeNode[]): Promise<readonly TreeNode[]> {
  const groups: (TreeNode[] | undefined)[] = [];
  for (const [index, node] of nodes.entries()) {
    const group = Math.floor(node.inode.entry / groupEntries);
    groups[group] ??= [];
    groups[group].push(node);
    if (index % nodesPerTurn === 0) await pauseTurn();
  }
  const sorted: TreeNode[] = [];
  for (const group of groups) {
    if (!group) continue;
    group.sort((one, other) => one.inode.entry - other.inode.entry);
    for (const node of group) sorted.push(node);
    await pauseTurn();
  }
  return sorted;
}
