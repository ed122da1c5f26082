import { posix } from 'node:path';
import type { FileTree, TreeEntry } from '../../../buildkit/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';

/** The limit of Linux, which then fails with ELOOP. */
const maxLinks = 40;
/** Names in the targets of the links on one path. A few long targets could lead to and fro all the time. */
const maxLinkedNames = 4096;
/** Maximum number of entries that links may add to a tree: a few links can lead to any number of files. */
const maxFollowed = 200_000;

const entriesPerTurn = 1000;

/** A directory of the resulting tree. */
interface Shown {
  /** Path of the real directory, and of its ancestors. */
  readonly real: string;
  readonly chain: readonly string[];
  /** True below a link. */
  readonly isFollowed: boolean;
}

interface Found {
  readonly path: string;
  readonly entry: TreeEntry;
}

/**
 * Returns the same tree with each symbolic link replaced by its target, as `cp -L` copies it. Links out of the tree, to
 * nothing, back to one of their own directories, or through too many other links stay links. Hard links become copies.
 */
export function followedLinks(tree: FileTree): FileTree {
  const lists = new Map<string, Promise<ReadonlyMap<string, TreeEntry>>>();
  const shown = new Map<string, Shown>([['', { real: '', chain: [''], isFollowed: false }]]);
  const listed = new Map<string, Promise<readonly TreeEntry[]>>();
  /** Real paths of files that were links. */
  const files = new Map<string, string>();
  let followed = 0;

  const entriesOf = (directory: string) => {
    const known =
      lists.get(directory) ??
      tree.list(directory).then(all => new Map(all.map(entry => [entry.name, entry])));
    lists.set(directory, known);
    return known;
  };

  const targetOf = async (directory: string, link: string): Promise<Found | undefined> => {
    const rest = link.split('/').toReversed();
    let [links, linkedNames] = [0, rest.length];
    let at = directory;
    let found: Found | undefined;
    if (link.startsWith('/')) return undefined;
    for (let part = rest.pop(); part !== undefined; part = rest.pop()) {
      if (part === '' || part === '.') continue;
      if (found && found.entry.kind !== 'directory') return undefined;
      if (part === '..') {
        if (at === '') return undefined;
        at = parentOf(at);
        found = undefined;
        continue;
      }
      const entry: TreeEntry | undefined = (await entriesOf(at)).get(part);
      if (entry?.kind === 'symlink') {
        const { target = '' } = entry;
        const names = target.split('/');
        links += 1;
        linkedNames += names.length;
        const isEndless = links > maxLinks || linkedNames > maxLinkedNames;
        if (isEndless || target.startsWith('/')) return undefined;
        rest.push(...names.toReversed());
        continue;
      }
      if (!entry) return undefined;
      found = { path: joinedPath(at, part), entry };
      if (entry.kind === 'directory') at = found.path;
    }
    return found ?? directoryAt(at);
  };

  /** Returns the directory at the target of a link. */
  const directoryAt = async (path: string): Promise<Found | undefined> => {
    const entry = (await entriesOf(parentOf(path))).get(posix.basename(path));
    return entry && path !== '' ? { path, entry } : undefined;
  };

  const makeList = async (directory: string): Promise<readonly TreeEntry[]> => {
    const { real, chain, isFollowed } = await shownAt(directory);
    const entries: TreeEntry[] = [];
    for (const entry of (await entriesOf(real)).values()) {
      if (entries.length % entriesPerTurn === entriesPerTurn - 1) await pauseTurn();
      const isLink = entry.kind === 'symlink';
      const found = isLink ? await targetOf(real, entry.target ?? '') : undefined;
      const target = found && !chain.includes(found.path) ? found : undefined;
      if (isFollowed || target) followed += 1;
      if (followed > maxFollowed) throw tooMany();
      const kept = { ...(target?.entry ?? entry), name: entry.name, inode: undefined };
      const path = target?.path ?? joinedPath(real, entry.name);
      const name = joinedPath(directory, entry.name);
      if (kept.kind === 'directory') {
        const below = isFollowed || target !== undefined;
        shown.set(name, { real: path, chain: [...chain, path], isFollowed: below });
      } else {
        files.set(name, path);
      }
      entries.push(kept);
    }
    return entries;
  };

  const listShown = (directory: string): Promise<readonly TreeEntry[]> => {
    const known = listed.get(directory) ?? makeList(directory);
    listed.set(directory, known);
    return known;
  };

  const shownAt = async (directory: string): Promise<Shown> => {
    if (!shown.has(directory)) await listShown(parentOf(directory));
    return shown.get(directory) ?? { real: directory, chain: [directory], isFollowed: false };
  };

  return {
    list: listShown,
    async *read(path) {
      if (!files.has(path)) await listShown(parentOf(path));
      yield* tree.read(files.get(path) ?? path);
    },
  };
}

function tooMany(): Fault {
  return new Fault(
    'bad-request',
    `The build context contains links to more than ${maxFollowed} files: leave out those that are not needed`,
    { phase: 'build' },
  );
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

function joinedPath(directory: string, name: string): string {
  return directory === '' ? name : `${directory}/${name}`;
}

// The umask of Apptainer's own copies, and the bits that `cp` without `-p` leaves out.
const leftOut = 0o7002;

/** Returns the tree with the modes that copies of its files get from `cp`, as Apptainer runs it. */
export function withCopyModes(tree: FileTree): FileTree {
  return {
    async list(directory) {
      const entries = await tree.list(directory);
      return entries.map(entry => ({ ...entry, mode: entry.mode & ~leftOut }));
    },
    read: path => tree.read(path),
  };
}

/** Returns both trees as one. Where both have an entry of the same name, the upper one wins; directories are merged. */
export function layeredTree(upper: FileTree, lower: FileTree): FileTree {
  return {
    async list(directory) {
      const above = await upper.list(directory);
      const names = new Set(above.map(({ name }) => name));
      const below = await lower.list(directory);
      return [...above, ...below.filter(({ name }) => !names.has(name))];
    },
    async *read(path) {
      const directory = path.slice(0, Math.max(0, path.lastIndexOf('/')));
      const above = await upper.list(directory);
      const isAbove = above.some(({ name }) => name === posix.basename(path));
      yield* (isAbove ? upper : lower).read(path);
    },
  };
}

const ignoreFile = '.dockerignore';

/** Returns the tree with a `.dockerignore`, if it has one, that excludes none of the named files. */
export function withoutIgnoring(tree: FileTree, paths: readonly string[]): FileTree {
  // The last pattern that matches a path decides.
  const exceptions = Buffer.from(`\n${paths.map(path => `!${path}\n`).join('')}`);
  const isIgnoreFile = ({ name, kind }: TreeEntry) => name === ignoreFile && kind === 'file';
  return {
    async list(directory) {
      const entries = await tree.list(directory);
      if (directory !== '') return entries;
      return entries.map(entry =>
        isIgnoreFile(entry)
          ? // Other names of the file keep the content that was sent.
            { ...entry, size: entry.size + exceptions.length, inode: undefined }
          : entry,
      );
    },
    async *read(path) {
      yield* tree.read(path);
      if (path === ignoreFile) yield exceptions;
    },
  };
}

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
