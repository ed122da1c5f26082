import { readFileSync } from 'node:fs';
import { type ModulesResponse, modulesOf } from './read-modules.ts';
import { PackProblem, readPack } from './read-pack.ts';

/** A tag of a repository. */
export interface GitTag {
  /** Without `refs/tags/`. */
  readonly name: string;
  /** The object that it names: a commit, or a tag with a message. */
  readonly id: string;
  /** The commit that it leads to. */
  readonly commit: string;
}

/** What is read of a pack, on a thread. */
export type HistoryOrder =
  | {
      readonly read: 'tags';
      readonly path: string;
      readonly commit: string;
      readonly tags: readonly GitTag[];
    }
  | { readonly read: 'modules'; readonly path: string; readonly commit: string };

export type HistoryResponse =
  | { readonly problem: string }
  | { readonly tags: readonly GitTag[] }
  | ModulesResponse;

/** Some repositories have more. Their names take 20 MB here. */
const mostCommits = 100_000;
const bounds = { maxObjects: 200_000, maxObjectBytes: 1024 * 1024 };

/** Answers an order on a thread. Nothing in a repository makes it throw. */
export function readHistory(order: HistoryOrder): HistoryResponse {
  try {
    const pack = readFileSync(order.path);
    if (order.read === 'modules') return modulesOf(pack, order.commit, bounds);
    return { tags: tagsIn(pack, order.commit, order.tags) };
  } catch (error) {
    if (error instanceof PackProblem) return { problem: error.message };
    throw error;
  }
}

/** Returns the tags that lead to a commit or to one before it. The names of all commits are those of their bytes. */
export function tagsIn(pack: Buffer, commit: string, tags: readonly GitTag[]): readonly GitTag[] {
  const parents = new Map<string, readonly string[]>();
  const tagged = new Set<string>();
  const isWanted = (kind: string) => kind === 'commit' || kind === 'tag';
  readPack(pack, bounds, isWanted, (id, { kind, content }) => {
    if (kind === 'tag') tagged.add(id);
    else parents.set(id, parentsIn(content));
    if (parents.size > mostCommits) {
      throw new PackProblem(`it has more than ${mostCommits} commits`);
    }
  });
  const seen = new Set<string>();
  const open = [commit];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (seen.has(id)) continue;
    const before = parents.get(id);
    if (before === undefined) throw new PackProblem('its history is not complete');
    seen.add(id);
    open.push(...before);
  }
  return tags.filter(tag => seen.has(tag.commit) && (tag.id === tag.commit || tagged.has(tag.id)));
}

const idLength = 40;
const mostParents = 100;

/** Returns the parents of a commit. Source: git, `git cat-file commit`. */
function parentsIn(content: Buffer): readonly string[] {
  const found: string[] = [];
  let at = 'tree \n'.length + idLength;
  const start = 'parent ';
  while (content.toString('latin1', at, at + start.length) === start) {
    found.push(content.toString('latin1', at + start.length, at + start.length + idLength));
    if (found.length > mostParents) throw new PackProblem('a commit has too many parents');
    at += start.length + idLength + 1;
  }
  return found;
}
