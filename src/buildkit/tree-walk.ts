import { type FileTree, joined, remembering, type TreeEntry } from './file-tree.ts';
import { followPaths } from './follow-paths.ts';
import { type PathPattern, parsePaths, parsePatterns } from './path-pattern.ts';

/** What a builder wants of a tree. */
export interface TreeSelection {
  /** Only what matches one of these; everything when both are empty. */
  readonly includes: readonly string[];
  /** Paths that a COPY names, to be taken with what their symlinks lead to. */
  readonly follows: readonly string[];
  /** The lines of a .dockerignore. */
  readonly excludes: readonly string[];
}

/** An entry with its path from the root of the tree. */
export interface Found {
  readonly path: string;
  readonly entry: TreeEntry;
}

/** What matched a directory, pattern by pattern: all below it is matched too. */
type Matches = readonly boolean[];

interface Level {
  readonly found: Found | undefined;
  readonly included: Matches;
  readonly excluded: Matches;
  isSent: boolean;
}

/**
 * The selected entries: depth first, each directory before what is in it, siblings in the order of their
 * names' bytes. A directory that is not selected itself comes as soon as something in it is. This order
 * and these rules are those of github.com/tonistiigi/fsutil, which the builder relies on.
 */
export async function* walkTree(
  wholeTree: FileTree,
  selection: TreeSelection,
): AsyncGenerator<Found> {
  const tree = remembering(wholeTree);
  const follows = selection.follows.length > 0 ? await followPaths(tree, selection.follows) : [];
  const includes = parsePaths([...selection.includes, ...(follows ?? [])]);
  const excludes = parsePatterns(selection.excludes);
  const root: Level = {
    found: undefined,
    included: includes.map(() => false),
    excluded: excludes.map(() => false),
    isSent: true,
  };
  yield* walkDirectory(tree, '', [root], includes, excludes);
}

async function* walkDirectory(
  tree: FileTree,
  directory: string,
  levels: readonly Level[],
  includes: readonly PathPattern[],
  excludes: readonly PathPattern[],
): AsyncGenerator<Found> {
  const parent = levels.at(-1);
  const entries = [...(await tree.list(directory))].sort(byBytes);
  for (const entry of entries) {
    const found = { path: joined(directory, entry.name), entry };
    const included = match(includes, found.path, parent?.included ?? []);
    const excluded = match(excludes, found.path, parent?.excluded ?? []);
    const isSelected = (includes.length === 0 || included.matched) && !excluded.matched;
    if (isSelected) {
      for (const level of levels) {
        if (!level.isSent && level.found) yield level.found;
        level.isSent = true;
      }
      yield found;
    }
    if (entry.kind !== 'directory') continue;
    const isHopeless =
      (includes.length > 0 && !included.matched && !leadsTo(includes, found.path)) ||
      (excluded.matched && !mayTakeBack(excludes, found.path));
    if (isHopeless) continue;
    const level = {
      found,
      included: included.each,
      excluded: excluded.each,
      isSent: isSelected,
    };
    yield* walkDirectory(tree, found.path, [...levels, level], includes, excludes);
  }
}

/** The last pattern that matches decides; one that matched a directory matches all that is in it. */
function match(
  patterns: readonly PathPattern[],
  path: string,
  above: Matches,
): { matched: boolean; each: Matches } {
  let matched = false;
  const each = patterns.map((pattern, index) => {
    const isMatch = above[index] || (pattern.isException === matched && pattern.matches(path));
    if (isMatch) matched = !pattern.isException;
    return isMatch;
  });
  return { matched, each };
}

/** True when something in a directory that is not included may be. */
function leadsTo(patterns: readonly PathPattern[], directory: string): boolean {
  return patterns.some(pattern => !pattern.isException && mayMatchBelow(pattern, directory));
}

/** True when something in a directory that is excluded may be taken back. */
function mayTakeBack(patterns: readonly PathPattern[], directory: string): boolean {
  return patterns.some(pattern => pattern.isException && mayMatchBelow(pattern, directory));
}

function mayMatchBelow(pattern: PathPattern, directory: string): boolean {
  return !pattern.isPlain || `${pattern.text}/`.startsWith(`${directory}/`);
}

function byBytes(one: TreeEntry, other: TreeEntry): number {
  return Buffer.compare(Buffer.from(one.name), Buffer.from(other.name));
}
