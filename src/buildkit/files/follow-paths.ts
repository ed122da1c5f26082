import { posix } from 'node:path';
import { type FileTree, parentOf, type TreeEntry } from './file-tree.ts';
import { compileGlob } from './glob.ts';
import { hasWildcard } from './path-pattern.ts';
import type { WalkBudget } from './walk-budget.ts';

// Linux follows as many for one path. This limit also ends a cycle of links.
const mostLinks = 40;
// Stops at a tree whose links would otherwise never end.
const mostPaths = 100_000;

/**
 * Returns patterns for these paths and for everything that they lead to: a path through a symlink needs the link and
 * its target inside the tree. Returns undefined if one of them is the whole tree. Follows `FollowLinks` of
 * github.com/tonistiigi/fsutil, except that `FollowLinks` misses a second path through a link.
 */
export async function followPaths(
  tree: FileTree,
  paths: readonly string[],
  budget: WalkBudget,
): Promise<string[] | undefined> {
  const found = new Set<string>();
  const look: Look = { tree, budget, names: new Map() };
  const linksBefore = new Map(paths.map(path => [clean(path), 0]));
  for (const [path, links] of linksBefore) {
    if (path === '') return undefined;
    const step = await firstLinkIn(look, path);
    found.add(step.path);
    for (const target of step.targets) {
      const next = clean(posix.join(target, step.rest));
      const isNew = !linksBefore.has(next) && links < mostLinks && linksBefore.size < mostPaths;
      // The loop over the map also visits entries that are added during the loop.
      if (isNew) linksBefore.set(next, links + 1);
    }
  }
  return [...found];
}

/** The tree, and the entries of its directories by name. */
interface Look {
  readonly tree: FileTree;
  readonly budget: WalkBudget;
  readonly names: Map<string, ReadonlyMap<string, TreeEntry>>;
}

/**
 * Splits a path at its first symlink: the path up to the link, the link's targets, and the rest. Without a symlink,
 * returns the whole path.
 */
async function firstLinkIn(look: Look, whole: string) {
  const parts = whole.split('/');
  for (let count = 1; count <= parts.length; count += 1) {
    const path = parts.slice(0, count).join('/');
    const { targets, isThere } = await targetsOf(look, path);
    if (targets.length > 0) return { path, targets, rest: parts.slice(count).join('/') };
    if (!isThere) break;
  }
  return { path: whole, targets: [], rest: '' };
}

// Absolute targets start at the root of the tree. No target leads out of the tree.
function clean(path: string): string {
  return posix.join('/', path).slice(1).replace(/\/$/, '');
}

/**
 * Returns the targets of the symlinks that a path names, and whether the path exists. The last part of the path may
 * contain a wildcard.
 */
async function targetsOf({ tree, budget, names }: Look, path: string) {
  const directory = parentOf(path);
  const part = posix.basename(path);
  await budget.next();
  const entries = await tree.list(directory);
  if (!hasWildcard(part)) {
    let named = names.get(directory);
    if (!named) {
      named = new Map(entries.map(entry => [entry.name, entry]));
      names.set(directory, named);
    }
    const entry = named.get(part);
    const targets = entry?.kind === 'symlink' ? [targetOf(directory, entry)] : [];
    return { targets, isThere: entry !== undefined };
  }
  budget.spend(entries.length);
  const isWanted = compileGlob(part);
  const targets: string[] = [];
  for (const entry of entries) {
    if (entry.kind !== 'symlink') continue;
    await budget.next();
    if (isWanted(entry.name, budget.spend)) targets.push(targetOf(directory, entry));
  }
  return { targets, isThere: entries.length > 0 };
}

function targetOf(directory: string, { target = '' }: TreeEntry): string {
  return target.startsWith('/') ? target : posix.join('/', directory, target);
}
