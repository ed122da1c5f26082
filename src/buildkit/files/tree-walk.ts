import { type FileTree, joined, remembering, type TreeEntry } from './file-tree.ts';
import { followPaths } from './follow-paths.ts';
import { type PathPattern, parsePath, parsePattern } from './path-pattern.ts';
import { sortInTurns } from './sort-in-turns.ts';
import { WalkBudget } from './walk-budget.ts';

const surrogate = /[\ud800-\udfff]/;
const maxPatterns = 5000;
// Each is a step of a pattern that is kept in memory while the tree is walked.
const maxTotalLength = 200_000;
const maxLength = 4096;

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

/** A directory on the way to where the walk is. */
interface Level {
  readonly found: Found | undefined;
  readonly included: Matches;
  readonly excluded: Matches;
  isSent: boolean;
  readonly entries: Iterator<TreeEntry>;
}

/**
 * The selected entries: depth first, each directory before what is in it, siblings in the order of their
 * names' bytes. A directory that is not selected itself comes as soon as something in it is. This order
 * and these rules are those of github.com/tonistiigi/fsutil, which the builder relies on.
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
  // Symlinks may have led to many more.
  checkSize([...included, ...excluded]);
  const includes = await parsed(included, parsePath, budget);
  const excludes = await parsed(excluded, parsePattern, budget);
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
  if (patterns.some(({ length }) => length > maxLength)) {
    throw new Error('a pattern of .dockerignore or COPY is longer than a path can be');
  }
}

async function parsed(
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

/** What a walk goes by. */
interface Walk {
  readonly tree: FileTree;
  readonly includes: readonly PathPattern[];
  readonly excludes: readonly PathPattern[];
  readonly budget: WalkBudget;
}

// The way down is a list: generators within generators would hand each entry up through all of them.
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
    const included = match(includes, found.path, level.included, budget);
    const excluded = match(excludes, found.path, level.excluded, budget);
    const isSelected = (includes.length === 0 || included.matched) && !excluded.matched;
    if (isSelected) {
      yield* unsent(levels);
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

/** The directories above that have not been sent, the highest first. Above one that has been, all have. */
function unsent(levels: readonly Level[]): Found[] {
  const found: Found[] = [];
  for (let at = levels.length - 1; at >= 0; at -= 1) {
    const level = levels[at];
    if (!level || level.isSent) break;
    level.isSent = true;
    if (level.found) found.unshift(level.found);
  }
  return found;
}

/** The last pattern that matches decides; one that matched a directory matches all that is in it. */
function match(
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

/** The order of UTF-8, which is that of JavaScript but where a character takes two units. */
function byBytes({ name: one }: TreeEntry, { name: other }: TreeEntry): number {
  if (one === other) return 0;
  if (!surrogate.test(one) && !surrogate.test(other)) return one < other ? -1 : 1;
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
