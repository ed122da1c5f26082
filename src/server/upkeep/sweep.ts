import type { Digest } from '../../oci/digest.ts';
import type { ContentStore, KeptContent } from '../../storage/content/content-store.ts';
import type { HostedStore } from '../../storage/rows/hosted/hosted-store.ts';
import type { AnonymousUseStore } from '../../storage/rows/images/anonymous-use.ts';
import type { BuildStore } from '../../storage/rows/images/build-rows.ts';
import type { CachedBlobStore } from '../../storage/rows/images/cached-blob-rows.ts';
import type { RequestStore } from '../../storage/rows/images/request-rows.ts';
import { eachRow } from '../../storage/rows/small-steps.ts';
import { createDigestFilter } from './digest-filter.ts';
import { markBuilds, markRequests } from './marks.ts';
import { type OrphanOptions, unlinkOrphans } from './orphans.ts';

export interface SweepDeps {
  readonly content: ContentStore;
  readonly hosted: HostedStore;
  readonly cachedBlobs: CachedBlobStore;
  readonly requests: Pick<RequestStore, 'endingAfter'>;
  readonly builds: Pick<BuildStore, 'unfinished'>;
  readonly anonymousUse: Pick<AnonymousUseStore, 'forget' | 'digestsAfter'>;
}

/** The orphans come first. */
export interface SweepOptions extends OrphanOptions {
  /** ms that content is kept after it was used last. */
  readonly graceMs: number;
  /** Called for each removed content. */
  readonly onRemoved?: (content: Pick<KeptContent, 'digest' | 'size'>) => void;
  /** ms since the epoch */
  readonly now?: number;
}

export interface SweepReport {
  /** Number of blobs taken out of repositories. */
  readonly unlinkedCount: number;
  /** Number of unreferenced contents, and their bytes. */
  readonly removedCount: number;
  readonly removedBytes: number;
  /** Content that stays. */
  readonly keptCount: number;
}

// Long enough for an operator to look at what a disk has done.
const damagedKeptMs = 7 * 86_400_000;
// What was used later than this from now was dated by a clock that was wrong.
const futureMs = 3_600_000;

/**
 * Removes the content that no hosted repository, no live container token, no unfinished build and no
 * cache refers to. It works in small steps, so that requests and other processes go on meanwhile, and takes the same
 * memory whatever there is.
 *
 * It is safe beside pushes and pulls, also of another process: who is about to refer to content first
 * counts it as used (`claim`), and what was used since the sweep began, or within the grace, stays.
 * A reader that has it open reads on.
 */
export async function sweep(deps: SweepDeps, options: SweepOptions): Promise<SweepReport> {
  const { content, hosted, cachedBlobs, requests, builds, anonymousUse } = deps;
  const { signal, isDryRun = false, now = Date.now() } = options;
  const times = { linkedBefore: now - options.graceMs, latest: now + futureMs, now };
  const since = times.linkedBefore;
  const unlinkedCount = await unlinkOrphans(hosted, times, options);
  if (!isDryRun) await hosted.removeEmpty(signal);
  // Durable, since the content goes next: a row that a power failure brings back would have none.
  await hosted.settle();
  const marked = createDigestFilter();
  await markRequests(content, requests, now, marked, signal);
  await markBuilds(content, builds, marked, signal);
  // In a dry run the orphans are still in their repositories.
  const isNeeded = async (digest: Digest) =>
    (await (isDryRun ? hosted.isNeeded(digest, since) : hosted.isHeld(digest))) ||
    (await cachedBlobs.has(digest));
  /** Content that somebody came to refer to since the look was used after it: it stays. */
  const remove = async (digest: Digest): Promise<boolean> => {
    const isRemoved = await content.removeUnused(digest, since);
    if (isRemoved) await anonymousUse.forget(digest);
    return isRemoved;
  };

  let removedCount = 0;
  let removedBytes = 0;
  let keptCount = 0;
  for await (const { digest, size, usedAt } of content.list()) {
    signal?.throwIfAborted();
    if (usedAt > times.latest && !isDryRun) await content.claim(digest);
    const isOld = usedAt < since && !marked.mayHave(digest) && !(await isNeeded(digest));
    if (isOld && (isDryRun || (await remove(digest)))) {
      removedCount += 1;
      removedBytes += size;
      options.onRemoved?.({ digest, size });
    } else {
      keptCount += 1;
    }
  }
  if (!isDryRun) {
    await forgetGone(deps, signal);
    await content.removeDamaged(now - damagedKeptMs);
  }
  return { unlinkedCount, removedCount, removedBytes, keptCount };
}

/** What has gone in other ways takes no room of those who brought it either. */
async function forgetGone(
  { content, anonymousUse }: SweepDeps,
  signal: AbortSignal | undefined,
): Promise<void> {
  let last = '';
  const digests = eachRow(async rows => {
    const page = await anonymousUse.digestsAfter(last, rows);
    last = page.at(-1) ?? last;
    return page;
  }, signal);
  for await (const digest of digests) {
    if ((await content.size(digest)) !== undefined) continue;
    await anonymousUse.forget(digest);
  }
}
