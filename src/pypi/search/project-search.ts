import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { unlessAborted } from '../../foundation/work.ts';
import { defaultIndex } from '../indexes/index-access.ts';
import type { PageStore } from '../indexes/page-store.ts';
import type { PageThread } from '../indexes/page-thread.ts';
import { mostProjectVersions, type ProjectVersion } from '../indexes/versions-in-page.ts';
import { projectName } from '../wheel-file.ts';

/** A project of the index that requests use. */
export interface FoundProject {
  /** As indexes compare it. */
  readonly name: string;
  /** Newest first. */
  readonly versions: readonly ProjectVersion[];
  /** True if there are older ones. */
  readonly hasMore: boolean;
}

export interface ProjectResult {
  /** Undefined where the index has no project of this name, or did not say in time. */
  readonly project: FoundProject | undefined;
  /** Why the index could not be searched, in a sentence. */
  readonly problem: string | undefined;
  /** True while the index is being asked: a later search finds more. */
  readonly isLate: boolean;
}

/**
 * Finds a project by its whole name in the index of requests that name none: an index cannot be searched, and other indexes belong to
 * requests that name them.
 */
export interface ProjectSearch {
  find(text: string, signal: AbortSignal): Promise<ProjectResult>;
}

const plainName = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$/;
/** How long a search waits for the index. */
const waitMs = 1000;
const atOnce = 4;
const mostWaiting = 50;
/** People type faster than an index answers, and come back to a name. */
const knownMs = 60_000;
const mostKnown = 500;
const nothing: ProjectResult = { project: undefined, problem: undefined, isLate: false };

/** Returns the project that an entry such as `pip:scanpy==1.11` names; undefined for an entry of Conda. */
export function projectIn(entry: string): string | undefined {
  return /^pip:([\w.-]+)/.exec(entry)?.[1];
}

export function createProjectSearch({
  pages,
  thread,
  isOffered,
}: {
  readonly pages: PageStore;
  readonly thread: Pick<PageThread, 'versions'>;
  /** Returns false on a server that does not install Python packages itself: it asks no index. */
  readonly isOffered: () => boolean;
}): ProjectSearch {
  const known = boundedCache<string, ProjectResult>(mostKnown, { ttl: knownMs });
  const turns = new Semaphore({ limit: atOnce, mostWaiting, refusal: tooManySearches });

  const lookUp = async (name: string, signal: AbortSignal): Promise<ProjectResult> => {
    using _turn = await turns.take({ signal });
    using kept = await pages.page(defaultIndex, name, signal);
    if (kept === undefined) return nothing;
    const versions = await thread.versions(kept.page);
    if (versions.length === 0) return nothing;
    const project = {
      name,
      versions: versions.slice(0, mostProjectVersions),
      hasMore: versions.length > mostProjectVersions,
    };
    return { project, problem: undefined, isLate: false };
  };

  return {
    async find(text, gone) {
      const written = text.trim();
      if (!isOffered() || !plainName.test(written)) return nothing;
      const name = projectName(written);
      const before = known.get(name);
      if (before !== undefined) return before;
      const signal = AbortSignal.any([gone, AbortSignal.timeout(waitMs)]);
      try {
        const result = await unlessAborted(lookUp(name, signal), signal);
        known.set(name, result);
        return result;
      } catch (error) {
        gone.throwIfAborted();
        const isFull = error instanceof Fault && error.phase === 'limit';
        if (signal.aborted || isFull) return { ...nothing, isLate: true };
        if (!(error instanceof Fault)) throw error;
        const result = { ...nothing, problem: error.message };
        known.set(name, result);
        return result;
      }
    },
  };
}

function tooManySearches(): Fault {
  return new Fault('unavailable', 'Too many people search for packages: try again in a moment', {
    phase: 'limit',
    limit: 'package searches at once',
    retryAfterSeconds: 5,
  });
}
