import type { ContentStore } from '../content/content-store.ts';
import type { Digest } from '../oci/digest.ts';
import type { BuildStore } from '../store/builds.ts';
import type { CachedBlobStore } from '../store/cached-blobs.ts';
import type { HostedContent, HostedStore } from '../store/hosted.ts';
import type { RequestStore } from '../store/requests.ts';
import { markBuilds, markRequests } from './marks.ts';

export interface SweepDeps {
  readonly content: ContentStore;
  readonly hosted: HostedStore;
  readonly cachedBlobs: CachedBlobStore;
  readonly requests: RequestStore;
  readonly builds: Pick<BuildStore, 'unfinished'>;
}

export interface SweepOptions {
  /** ms that content is kept after it was used last. */
  readonly graceMs: number;
  /** Only tell what would be removed. */
  readonly isDryRun?: boolean;
  readonly signal?: AbortSignal;
}

export interface SweepReport {
  /** Blobs taken out of repositories in which no manifest refers to them. */
  readonly unlinked: readonly HostedContent[];
  /** Content that nothing refers to any more. */
  readonly removed: readonly { readonly digest: Digest; readonly size: number }[];
  /** Bytes of what was removed. */
  readonly removedBytes: number;
  /** Content that stays. */
  readonly keptCount: number;
}

/**
 * Removes the content that no hosted repository, no live container token, no unfinished build and no
 * cache refers to.
 *
 * It is safe beside pushes and pulls, also of another process: who is about to refer to content first
 * counts it as used (`claim`), and what was used since the sweep began, or within the grace, stays.
 * A reader that has it open reads on.
 */
export async function sweep(deps: SweepDeps, options: SweepOptions): Promise<SweepReport> {
  const { content, hosted, cachedBlobs, requests, builds } = deps;
  const now = Date.now();
  const since = now - options.graceMs;
  const unlinked = options.isDryRun ? hosted.orphans(since) : unlinkOrphans(hosted, since);
  const unlinkedCounts = countByDigest(options.isDryRun ? unlinked : []);
  const ofRequests = await markRequests(content, requests, now);
  const ofBuilds = markBuilds(builds);
  const isNeeded = (digest: Digest) =>
    hosted.holderCount(digest) > (unlinkedCounts.get(digest) ?? 0) || cachedBlobs.has(digest);

  const removed: { digest: Digest; size: number }[] = [];
  let keptCount = 0;
  for await (const { digest, size, usedAt } of content.list()) {
    options.signal?.throwIfAborted();
    const isOld = usedAt < since && !ofRequests.has(digest) && !ofBuilds.has(digest);
    if (isOld && remove(deps, digest, since, isNeeded, options.isDryRun)) {
      removed.push({ digest, size });
    } else {
      keptCount += 1;
    }
  }
  const removedBytes = removed.reduce((sum, { size }) => sum + size, 0);
  return { unlinked, removed, removedBytes, keptCount };
}

/** The last look and the removal are one: nobody can come to refer to the content in between. */
function remove(
  { content, hosted }: SweepDeps,
  digest: Digest,
  since: number,
  isNeeded: (digest: Digest) => boolean,
  isDryRun = false,
): boolean {
  if (isNeeded(digest)) return false;
  if (isDryRun) return true;
  return hosted.atomically(() => !isNeeded(digest) && content.removeUnused(digest, since));
}

function unlinkOrphans(hosted: HostedStore, since: number): HostedContent[] {
  return hosted.atomically(() => {
    const orphans = hosted.orphans(since);
    for (const { repository, digest } of orphans) hosted.removeBlob(repository, digest);
    return orphans;
  });
}

function countByDigest(links: readonly HostedContent[]): Map<Digest, number> {
  const counts = new Map<Digest, number>();
  for (const { digest } of links) counts.set(digest, (counts.get(digest) ?? 0) + 1);
  return counts;
}
