import type { Transport } from '../../upstream/index.ts';
import { cloneAddress, isCommitId } from './git-address.ts';
import { type ListLimits, listReferences } from './reference-list.ts';
import { refused, unreadable } from './repository-faults.ts';

/** Finds commits in git repositories. */
export interface CommitFinder {
  /**
   * Returns the commit that a branch or tag of a repository has now, or its default branch for undefined. Throws a `Fault` for a
   * repository that cannot be read, and for one at a closed address.
   */
  commitOf(url: string, revision: string | undefined, signal: AbortSignal): Promise<string>;
  /** Throws a `Fault` for a repository at a closed address. */
  check(url: string): Promise<void>;
}

/**
 * @param transport connects to public addresses, and to those that builders may connect to
 */
export function createCommitFinder(
  transport: Transport,
  limits: Partial<ListLimits> = {},
): CommitFinder {
  return {
    async check(asked) {
      const url = cloneAddress({ url: asked });
      await transport.checkReach({ url: new URL(url) }).catch(error => {
        throw unreadable(url, error, 'its branches and tags');
      });
    },

    async commitOf(asked, revision, signal) {
      if (revision !== undefined && isCommitId(revision)) return revision;
      // What is found must be what is built.
      const url = cloneAddress({ url: asked });
      const places = placesOf(revision);
      const found = new Map<string, string>();
      await listReferences(transport, { url, signal, limits }, (id, name) => {
        if (places.includes(name)) found.set(name, id);
      });
      const [id] = places.flatMap(place => found.get(place) ?? []);
      if (id !== undefined) return id;
      const what = revision === undefined ? 'commit' : `branch or tag '${revision}'`;
      throw refused(
        `The git repository ${url} has no ${what}${/^[0-9a-f]{7,39}$/.test(revision ?? '') ? ': write all 40 digits of a commit' : ''}`,
      );
    },
  };
}

/** Returns the names that a revision may have, the first one first. A tag with a message is an object beside its commit. */
function placesOf(revision: string | undefined): readonly string[] {
  if (revision === undefined || revision === 'HEAD') return ['HEAD'];
  const names = [`refs/heads/${revision}`, `refs/tags/${revision}`];
  return [...names, revision].flatMap(name => [`${name}^{}`, name]);
}
