import { createHash, randomUUID } from 'node:crypto';
import { mkdir, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { inRoom, threadNeeds } from '../../conda/layers/gzip/index.ts';
import { runTask } from '../../conda/threads/one-task.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import type { Transport } from '../../upstream/index.ts';
import type { GitCommit } from '../wheel-file.ts';
import {
  fetchPack,
  type PackLimits,
  type PackOrder,
  PackRefused,
  PackTooLarge,
} from './fetch-pack.ts';
import { cloneAddress, commitAddress, isFolder, moduleAddress } from './git-address.ts';
import type { GitTag, HistoryOrder, HistoryResponse } from './read-history.ts';
import type { ListedModule } from './read-modules.ts';
import { listReferences } from './reference-list.ts';
import { refused } from './repository-faults.ts';

/** Reads what a commit has beside its files: what git says about its version depends on that. */
export interface RepositoryReader {
  /** Returns all tags of a repository. Throws a `Fault` for one that cannot be read. */
  tagsOf(url: string, signal: AbortSignal): Promise<ListedTags>;
  /** Returns the commits before a commit, and the tags of these. Throws a `Fault` for a repository that cannot be read. */
  historyOf(commit: GitCommit, tags: ListedTags, signal: AbortSignal): Promise<CommitHistory>;
  /**
   * Returns the submodules of a commit, with theirs: each one after the one that has it. Throws a `Fault` for one that is at a closed
   * address, or cannot be fetched without credentials.
   */
  submodulesOf(commit: GitCommit, signal: AbortSignal): Promise<Submodules>;
}

/** The submodules of a commit and of these. */
export interface Submodules {
  readonly modules: readonly Submodule[];
  /** False for a commit that certainly has none. */
  readonly isListed: boolean;
  /** Why they are not known. */
  readonly problem?: string;
}

/** The tags of a repository now. */
export interface ListedTags {
  readonly tags: readonly GitTag[];
  /** Changes with them. */
  readonly label: string;
}

/** The commits before a commit and itself. The file is removed when it is disposed. */
export interface CommitHistory extends AsyncDisposable {
  /** A pack with the commits, for git; undefined for a history that cannot be used. */
  readonly pack: { readonly path: string; readonly size: number } | undefined;
  /** Those that lead to one of the commits. */
  readonly tags: readonly GitTag[];
  /** Changes with the tags. Those that a repository gets elsewhere are not in it. */
  readonly label: string;
  /** Why there is no history. */
  readonly problem?: string;
}

/** A repository in a folder of another one. */
export interface Submodule {
  /** Folder of the outermost repository. */
  readonly path: string;
  readonly url: string;
  readonly id: string;
}

const usual: PackLimits = { timeoutMs: 120_000, maxBytes: 32 * 1024 * 1024 };
const readMs = 60_000;
/** Each takes memory of a thread, and of the connection. */
const repositoriesAtOnce = 2;
const mostTags = 20_000;
const longestTag = 200;
const mostModules = 50;
const deepestModule = 5;
const worker = new URL('./history-worker.ts', import.meta.url);

/**
 * @param transport connects to public addresses, and to those that builders may connect to
 * @param directory for files that are fetched; emptied at the start by its owner
 */
export function createRepositoryReader(
  transport: Transport,
  directory: string,
  limits: Partial<PackLimits> = {},
): RepositoryReader {
  const turns = new Semaphore({ limit: repositoriesAtOnce });
  const bounds = { ...usual, ...limits };

  const place = async () => {
    const folder = resolve(directory);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return join(folder, `${randomUUID()}.pack`);
  };

  const read = async (order: HistoryOrder, signal: AbortSignal): Promise<HistoryResponse> => {
    const stop = AbortSignal.any([signal, AbortSignal.timeout(readMs)]);
    try {
      return await inRoom(threadNeeds.large, () => runTask(worker, order, stop));
    } catch (error) {
      if (signal.aborted || error instanceof Fault) throw error;
      return { problem: 'it takes too long or too much memory to read' };
    }
  };

  /** Returns the submodules that a commit lists itself. */
  const listedIn = async (
    commit: Pick<GitCommit, 'url' | 'id'>,
    signal: AbortSignal,
  ): Promise<{ modules: readonly ListedModule[]; isListed: boolean } | { problem: string }> => {
    const url = cloneAddress(commit);
    const look = async (order: Pick<PackOrder, 'wants' | 'filter'>) => {
      const path = await place();
      try {
        await fetchPack(transport, { url, isShallow: true, path, signal, ...order }, bounds);
        return await read({ read: 'modules', path, commit: commit.id }, signal);
      } catch (error) {
        return { problem: problemOf(error) };
      } finally {
        await rm(path, { force: true });
      }
    };
    const first = await look({ wants: [commit.id], filter: 'tree:1' });
    const response =
      'list' in first ? await look({ wants: [commit.id, first.list], filter: 'blob:none' }) : first;
    if ('modules' in response || 'problem' in response) return response;
    return { problem: 'its server does not send their list' };
  };

  const problemOf = (error: unknown): string => {
    if (error instanceof PackTooLarge) return `it takes more than ${bounds.maxBytes} bytes`;
    if (error instanceof PackRefused) return error.message;
    throw error;
  };

  return {
    async tagsOf(asked, signal) {
      const url = cloneAddress({ url: asked });
      const found = new Map<string, { id: string; commit: string }>();
      await listReferences(transport, { url, signal }, (id, reference) => {
        if (!reference.startsWith(prefix)) return;
        const isPeeled = reference.endsWith(peeled);
        const name = reference.slice(prefix.length, isPeeled ? -peeled.length : undefined);
        if (name.length > longestTag || !tagGrammar.test(name)) return;
        const known = found.get(name);
        if (isPeeled && known) found.set(name, { ...known, commit: id });
        else if (found.size < mostTags) found.set(name, { id, commit: id });
      });
      const tags = [...found].map(([name, it]) => ({ name, ...it }));
      return { tags, label: labelOf(tags) };
    },

    historyOf: (commit, { tags }, signal) =>
      turns.run(
        async () => {
          const path = await place();
          const remove = () => rm(path, { force: true });
          const without = async (problem: string): Promise<CommitHistory> => {
            await remove();
            const nothing = { pack: undefined, tags: [], label: '', problem };
            return { ...nothing, [Symbol.asyncDispose]: async () => {} };
          };
          const url = cloneAddress(commit);
          const wanted = { wants: [commit.id], filter: 'tree:0' } as const;
          try {
            await fetchPack(transport, { url, path, signal, ...wanted }, bounds);
            const response = await read({ read: 'tags', path, commit: commit.id, tags }, signal);
            if ('problem' in response) return await without(response.problem);
            if (!('tags' in response)) return await without('it cannot be read');
            return {
              pack: { path, size: (await stat(path)).size },
              tags: response.tags,
              label: labelOf(response.tags),
              [Symbol.asyncDispose]: remove,
            };
          } catch (error) {
            await remove();
            return await without(problemOf(error));
          }
        },
        { signal },
      ),

    async submodulesOf(commit, signal) {
      const found: Submodule[] = [];
      let isListed = false;
      const add = async (
        at: Pick<GitCommit, 'url' | 'id'>,
        folder: string,
        depth: number,
      ): Promise<string | undefined> => {
        const listed = await turns.run(() => listedIn(at, signal), { signal });
        if ('problem' in listed) return listed.problem;
        isListed ||= listed.isListed;
        for (const one of listed.modules) {
          const path = `${folder}${one.path}`;
          const problem = (why: string) =>
            refused(
              `The repository of ${commitAddress(commit)} has a submodule in ${JSON.stringify(path.slice(0, 200))} ${why}`,
            );
          const url = moduleAddress(one.url, cloneAddress(at));
          if (url === undefined) {
            throw problem(
              `at ${JSON.stringify(withoutLogin(one.url).slice(0, 200))}, which is not an https address without credentials: use a release of the package at an index`,
            );
          }
          if (!isFolder(path)) throw problem('whose name has characters that are not supported');
          if (depth === deepestModule) throw problem(`that is ${depth + 1} submodules deep`);
          if (found.length === mostModules) throw problem(`beside ${mostModules} others: too many`);
          const module = { path, url, id: one.commit };
          found.push(module);
          const why = await add(module, `${path}/`, depth + 1);
          if (why !== undefined) return why;
        }
        return undefined;
      };
      const problem = await add(commit, '', 0);
      return problem === undefined
        ? { modules: found, isListed }
        : { modules: [], isListed: true, problem };
    },
  };
}

const prefix = 'refs/tags/';
const peeled = '^{}';
/** Names that git allows and that fit a line of a file. Source: git, `git check-ref-format`. */
const tagGrammar = /^[^\0-\x20\x7f~^:?*[\\]+$/;

function labelOf(tags: readonly GitTag[]): string {
  const lines = tags.map(({ name, id, commit }) => `${id} ${commit} ${name}\n`).sort();
  return createHash('sha256').update(lines.join('')).digest('hex');
}

function withoutLogin(address: string): string {
  const at = address.indexOf('@');
  const start = address.indexOf('://');
  return at > 0 && start > 0 && start < at
    ? `${address.slice(0, start + 3)}${address.slice(at + 1)}`
    : address;
}
