import { Fault } from '../../../foundation/fault.ts';
import type {
  CommitHistory,
  HistoryNote,
  RepositoryReader,
  Submodule,
} from '../../../pypi/index.ts';
import type { GitCommit } from '../../../pypi/requirements/index.ts';

/** What a build gets beside the files of a commit. */
export interface CommitParts extends AsyncDisposable {
  readonly commit: GitCommit;
  readonly history: Pick<CommitHistory, 'pack' | 'tags' | 'problem'>;
  readonly submodules: readonly Submodule[];
  /** True for a commit that may have submodules. */
  readonly hasSubmodules: boolean;
  /** What the key of its wheel has of the history. */
  readonly note: HistoryNote;
}

interface PartsCaller {
  readonly signal: AbortSignal;
  readonly log: { write(text: string): void };
}

/** Fetches what git knows about a commit: its history, the tags in it, and its submodules. */
export async function partsOfCommit(
  repositories: RepositoryReader,
  commit: GitCommit,
  { signal, log }: PartsCaller,
): Promise<CommitParts> {
  const { modules, isListed, problem } = await repositories.submodulesOf(commit, signal);
  if (problem !== undefined) {
    log.write(`The submodules of ${commit.url} are not fetched: ${problem}\n`);
  }
  const listed = await repositories.tagsOf(commit.url, signal);
  const history = await repositories.historyOf(commit, listed, signal);
  if (history.problem !== undefined) {
    log.write(`The history and tags of ${commit.url} are not used: ${history.problem}\n`);
  }
  return {
    commit,
    history,
    submodules: modules,
    hasSubmodules: isListed,
    note: { listed: listed.label, label: history.label },
    [Symbol.asyncDispose]: () => history[Symbol.asyncDispose](),
  };
}

/**
 * Returns what is noted about the history of a commit as it is now. The list of tags alone is asked for as long as it does not change;
 * a repository that does not answer counts as unchanged.
 */
export async function currentNote(
  repositories: RepositoryReader,
  commit: GitCommit,
  noted: HistoryNote | undefined,
  { signal, log }: PartsCaller,
): Promise<HistoryNote | undefined> {
  if (noted === undefined) return undefined;
  try {
    const listed = await repositories.tagsOf(commit.url, signal);
    if (listed.label === noted.listed) return noted;
    await using history = await repositories.historyOf(commit, listed, signal);
    return { listed: listed.label, label: history.label };
  } catch (error) {
    if (signal.aborted || !(error instanceof Fault)) throw error;
    log.write(`${error.message}. Its tags count as unchanged\n`);
    return noted;
  }
}
