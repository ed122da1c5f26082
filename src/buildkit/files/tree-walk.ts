import { posix } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { sortInTurns } from '../../foundation/pause-turn.ts';
import { type FileTree, joined, parentOf, remembering, type TreeEntry } from './file-tree.ts';
import {
  compileGlob,
  hasWildcard,
  type PathPattern,
  parsePath,
  parsePattern,
} from './path-pattern.ts';

const surrogate = /[\ud800-\udfff]/;
const maxPatterns = 5000;
// Each character is a step of a pattern, which stays in memory during the walk.
const maxTotalLength = 200_000;
const maxPatternLength = 4096;

/** The part of a tree that a builder requests. */
export interface TreeSelection {
  /** Selects only paths that match one of these or of `follows`. If both are empty, selects everything. */
  readonly includes: readonly string[];
  /** Paths that a COPY names. Symlinks in them are followed, and their targets are selected too. */
  readonly follows: readonly string[];
  /** The lines of a .dockerignore. */
  readonly excludes: readonly string[];
}

/** An entry with its path from the root of the tree. */
export interface Found {
  readonly path: string;
  readonly entry: TreeEntry;
}

/** For each pattern, whether it matched a directory. It then also matches everything below. */
type Matches = readonly boolean[];

/** A directory on the path to the current position. */
interface Level {
  readonly found: Found | undefined;
  readonly included: Matches;
  readonly excluded: Matches;
  isSent: boolean;
  readonly entries: Iterator<TreeEntry>;
}

/**
 * Yields the selected entries: depth first, each directory before its content, siblings in the byte order of their
 * names. A directory that is not selected itself comes before the first selected entry in it. This order and these
 * rules are those of github.com/tonistiigi/fsutil; the builder relies on them.
 */
export async function* walkTree(
  wholeTree: FileTree,
  selection: TreeSelection,
  budget = new WalkBudget(),
): AsyncGenerator<Found> {
  const tree = remembering(wholeTree);
  const { follows } = selection;
  const excluded = selection.excludes.filter(line => line !== '');
  checkSize([...selection.includes, ...follows, ...excluded]);
  const followed = follows.length > 0 ? await followPaths(tree, follows, budget) : [];
  const included = [...selection.includes, ...(followed ?? [])];
  // Symlinks may have added many patterns.
  checkSize([...included, ...excluded]);
  const includes = await parsedPatterns(included, parsePath, budget);
  const excludes = await parsedPatterns(excluded, parsePattern, budget);
  yield* walkFrom({ tree, includes, excludes, budget });
}

function checkSize(patterns: readonly string[]): void {
  if (patterns.length > maxPatterns) {
    throw new Error(`.dockerignore and COPY have more than ${maxPatterns} patterns`);
  }
  if (patterns.reduce((sum, { length }) => sum + length, 0) > maxTotalLength) {
    throw new Error(
      `the patterns of .dockerignore and COPY have more than ${maxTotalLength} characters together`,
    );
  }
  if (patterns.some(({ length }) => length > maxPatternLength)) {
    throw new Error('a pattern of .dockerignore or COPY is longer than a path can be');
  }
}

async function parsedPatterns(
  patterns: readonly string[],
  parse: (pattern: string) => PathPattern,
  budget: WalkBudget,
): Promise<PathPattern[]> {
  const list: PathPattern[] = [];
  for (const pattern of patterns) {
    await budget.next();
    list.push(parse(pattern));
  }
  return list;
}

/** Input of a walk. */
interface Walk {
  readonly tree: FileTree;
  readonly includes: readonly PathPattern[];
  readonly excludes: readonly PathPattern[];
  readonly budget: WalkBudget;
}

// A list of levels, because nested generators would pass each entry up through every level.
async function* walkFrom({ tree, includes, excludes, budget }: Walk): AsyncGenerator<Found> {
  const open = async (directory: string, level: Omit<Level, 'entries'>): Promise<Level> => {
    const entries = await sortInTurns(await tree.list(directory), byBytes);
    return { ...level, entries: entries.values() };
  };
  const root = {
    found: undefined,
    included: includes.map(() => false),
    excluded: excludes.map(() => false),
    isSent: true,
  };
  const levels = [await open('', root)];
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    const { value: entry, done } = level.entries.next();
    if (done) {
      levels.pop();
      continue;
    }
    await budget.next();
    const found = { path: joined(level.found?.path ?? '', entry.name), entry };
    const included = matchPath(includes, found.path, level.included, budget);
    const excluded = matchPath(excludes, found.path, level.excluded, budget);
    const isSelected = (includes.length === 0 || included.matched) && !excluded.matched;
    if (isSelected) {
      yield* unsentParents(levels);
      yield found;
    }
    if (entry.kind !== 'directory') continue;
    const isHopeless =
      (includes.length > 0 && !included.matched && !leadsTo(includes, found.path)) ||
      (excluded.matched && !mayTakeBack(excludes, found.path));
    if (isHopeless) continue;
    const below = { found, included: included.each, excluded: excluded.each, isSent: isSelected };
    levels.push(await open(found.path, below));
  }
}

/** Returns the parent directories that have not been sent, topmost first. If one was sent, so were all above it. */
function unsentParents(levels: readonly Level[]): Found[] {
  const found: Found[] = [];
  for (let at = levels.length - 1; at >= 0; at -= 1) {
    const level = levels[at];
    if (!level || level.isSent) break;
    level.isSent = true;
    if (level.found) found.unshift(level.found);
  }
  return found;
}

/**
 * Returns whether the path is matched; the last matching pattern decides. A pattern that matched a directory also
 * matches everything in it.
 */
function matchPath(
  patterns: readonly PathPattern[],
  path: string,
  above: Matches,
  budget: WalkBudget,
): { matched: boolean; each: Matches } {
  let matched = false;
  budget.spend(patterns.length);
  const each = patterns.map((pattern, index) => {
    const isMatch =
      above[index] || (pattern.isException === matched && pattern.matches(path, budget.spend));
    if (isMatch) matched = !pattern.isException;
    return isMatch;
  });
  return { matched, each };
}

/** True if a directory that is not included may contain an included entry. */
function leadsTo(patterns: readonly PathPattern[], directory: string): boolean {
  return patterns.some(pattern => !pattern.isException && mayMatchBelow(pattern, directory));
}

/** True if an exception may select an entry in an excluded directory. */
function mayTakeBack(patterns: readonly PathPattern[], directory: string): boolean {
  return patterns.some(pattern => pattern.isException && mayMatchBelow(pattern, directory));
}

function mayMatchBelow(pattern: PathPattern, directory: string): boolean {
  return !pattern.isPlain || `${pattern.text}/`.startsWith(`${directory}/`);
}

/** Compares in the order of UTF-8. JavaScript's order differs only for characters of two code units. */
function byBytes({ name: one }: TreeEntry, { name: other }: TreeEntry): number {
  if (one === other) return 0;
  if (!surrogate.test(one) && !surrogate.test(other)) return one < other ? -1 : 1;
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

// Linux follows as many for one path. This limit also ends a cycle of links.
const mostFollowedLinks = 40;
// Stops at a tree whose links would otherwise never end.
const mostFollowedPaths = 100_000;

/**
 * Returns patterns for these paths and for everything that they lead to: a path through a symlink needs the link and
 * its target inside the tree. Returns undefined if one of them is the whole tree. Follows `FollowLinks` of
 * github.com/tonistiigi/fsutil, except that `FollowLinks` misses a second path through a link.
 */
async function followPaths(
  tree: FileTree,
  paths: readonly string[],
  budget: WalkBudget,
): Promise<string[] | undefined> {
  const found = new Set<string>();
  const look: Look = { tree, budget, names: new Map() };
  const linksBefore = new Map(paths.map(path => [cleanPath(path), 0]));
  for (const [path, links] of linksBefore) {
    if (path === '') return undefined;
    const step = await firstLinkIn(look, path);
    found.add(step.path);
    for (const target of step.targets) {
      const next = cleanPath(posix.join(target, step.rest));
      const isNew =
        !linksBefore.has(next) && links < mostFollowedLinks && linksBefore.size < mostFollowedPaths;
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
function cleanPath(path: string): string {
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

/** More than the .dockerignore of any real tree needs; takes about five seconds. */
const usualSteps = 200_000_000;
// Limit for one path, which is matched without a pause: about 20 ms.
const stepsForOne = 400_000;
const turnMs = 8;

/** Limits the cost of file selection, because the patterns may be untrusted. Also yields to other work. */
class WalkBudget {
  #left: number;
  #leftForOne = stepsForOne;
  #began = performance.now();

  constructor(steps = usualSteps) {
    this.#left = steps;
  }

  /** Call it before each path. Yields to other work from time to time. */
  async next(): Promise<void> {
    this.#leftForOne = stepsForOne;
    if (performance.now() - this.#began < turnMs) return;
    await nextTurn();
    this.#began = performance.now();
  }

  /** Throws an `Error` when the budget is spent. */
  readonly spend = (steps: number): void => {
    this.#left -= steps;
    this.#leftForOne -= steps;
    if (this.#left < 0 || this.#leftForOne < 0) {
      throw new Error(
        'the patterns of .dockerignore and COPY are too many, or too long, for the files of the build context',
      );
    }
  };
}
