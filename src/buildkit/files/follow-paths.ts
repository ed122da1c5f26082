import { posix } from 'node:path';
import { type FileTree, parentOf, type TreeEntry } from './file-tree.ts';
import { compileGlob } from './glob.ts';
import { hasWildcard } from './path-pattern.ts';
import type { WalkBudget } from './walk-budget.ts';

// As many as Linux follows for one path; a circle of links ends here too.
const mostLinks = 40;
// A tree made to be followed for ever is not.
const mostPaths = 100_000;

/**
 * The patterns that stand for these paths and all that they lead to: a path through a symlink needs the
 * link and what it points to, inside the tree. Undefined when one of them is the whole tree. Follows
 * `FollowLinks` of github.com/tonistiigi/fsutil, which however forgets a second way through a link.
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
      // A map is walked to its end, what is added on the way included.
      if (isNew) linksBefore.set(next, links + 1);
    }
  }
  return [...found];
}

/** What is looked through, and the entries of its directories by name. */
interface Look {
  readonly tree: FileTree;
  readonly budget: WalkBudget;
  readonly names: Map<string, ReadonlyMap<string, TreeEntry>>;
}

/** The part of a path up to its first symlink, where that leads to, and the rest; or all of the path. */
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

// Absolute targets begin at the root of the tree, and no target leads out of it.
function clean(path: string): string {
  return posix.join('/', path).slice(1).replace(/\/$/, '');
}

/** Where the symlinks lead to that a path (its last part perhaps a wildcard) names, and whether it names anything. */
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
