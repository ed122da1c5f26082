import { removePulls } from '../../../hosted/listings/pulled-names.ts';
import { mostOpen } from '../../../hosted/uploads/open-uploads.ts';
import type { ContentStore, KeptContent } from '../../../storage/content/content-store.ts';
import type { PullStore } from '../../../storage/rows/figures/pull-rows.ts';
import type { HostedStore } from '../../../storage/rows/hosted/hosted-store.ts';
import type { UploadStore } from '../../../storage/rows/hosted/upload-rows.ts';
import type { AnonymousUseStore } from '../../../storage/rows/images/anonymous-use.ts';
import type { BuildStore } from '../../../storage/rows/images/build-rows.ts';
import type { ContentRow, ContentRowStore } from '../../../storage/rows/images/content-rows.ts';
import type { PackageLayerStore } from '../../../storage/rows/images/package-layer-rows.ts';
import type { RequestStore } from '../../../storage/rows/images/request-rows.ts';
import { eachRow } from '../../../storage/rows/small-steps.ts';
import { createDigestFilter } from './digest-filter.ts';
import { markBuilds, markPackageLayers, markRequests } from './marks.ts';
import { type OrphanOptions, unlinkOrphans } from './orphans.ts';
import { enterUnknown } from './unknown-content.ts';

export interface SweepDeps {
  readonly content: ContentStore;
  readonly hosted: HostedStore;
  readonly uploads: Pick<UploadStore, 'latest'>;
  readonly pulls: Pick<PullStore, 'remove'>;
  readonly contentRows: ContentRowStore;
  readonly requests: Pick<RequestStore, 'endingAfter'>;
  readonly builds: Pick<BuildStore, 'unfinished'>;
  readonly packageLayers: Pick<PackageLayerStore, 'after'>;
  readonly anonymousUse: Pick<AnonymousUseStore, 'forget' | 'digestsAfter'>;
}

/** The orphans come first. */
export interface SweepOptions extends Omit<OrphanOptions, 'isNeeded'> {
  /** How long content is kept after its last use (ms). */
  readonly graceMs: number;
  /** Called for each removed content. */
  readonly onRemoved?: (content: Pick<KeptContent, 'digest' | 'size'>) => void;
  /** ms since the epoch */
  readonly now?: number;
}

export interface SweepReport {
  /** Number of blobs removed from repositories. */
  readonly unlinkedCount: number;
  /** Number of unreferenced contents, and their bytes. */
  readonly removedCount: number;
  readonly removedBytes: number;
  /** Content that stays. */
  readonly keptCount: number;
}

const dayMs = 86_400_000;
// Long enough for an operator to investigate the damage.
const damagedKeptMs = 7 * dayMs;
// The longest that a transfer to another store takes.
const transferMs = dayMs;
// A use dated further in the future comes from a wrong clock.
const futureMs = 3_600_000;

// The marks of this many contents are brought to the disk together.
const removedAtOnce = 32;

/**
 * Removes the content that no hosted repository, live container token, unfinished build, cache or kept layer of Conda
 * packages refers to. It works in small steps, so that requests and other processes continue meanwhile, and needs the
 * same memory for any amount of content.
 *
 * It is safe beside pushes and pulls, also of another process: a caller that is about to refer to content first
 * counts it as used (`claim`). Content that was used since the sweep began, or within the grace time, stays. Content
 * without a row gets one, and stays. Readers that have removed content open continue.
 */
export async function sweep(deps: SweepDeps, options: SweepOptions): Promise<SweepReport> {
  const { content, hosted, pulls, contentRows, requests, builds, packageLayers } = deps;
  const { signal, isDryRun = false, now = Date.now() } = options;
  const times = { linkedBefore: now - options.graceMs, latest: now + futureMs, now };
  const since = times.linkedBefore;
  const marked = createDigestFilter();
  await markRequests(content, requests, now, marked, signal);
  const unlinkedCount = await unlinkOrphans(hosted, times, {
    ...options,
    isNeeded: marked.mayHave,
  });
  const emptied = isDryRun ? [] : hosted.removeEmpty(signal);
  for await (const name of emptied) await removePulls(name, pulls);
  // This must be durable before the content is removed: a row that a power failure restores would have no content.
  await hosted.settle();
  let keptCount = await enterUnknown(content, contentRows, { isDryRun, signal });
  await markBuilds(content, builds, marked, signal);
  await markPackageLayers(packageLayers, marked, signal);

  let removedCount = 0;
  let removedBytes = 0;
  const remove = ({ digest, state }: ContentRow): Promise<boolean> =>
    content.remove(digest, () =>
      state === 'going' ? contentRows.takeOver(digest) : contentRows.markUnused(digest, since),
    );
  let waiting: ContentRow[] = [];
  const removeWaiting = async (): Promise<void> => {
    const rows = waiting;
    waiting = [];
    const gone = await Promise.all(rows.map(row => isDryRun || remove(row)));
    for (const [at, { digest, size }] of rows.entries()) {
      if (!gone[at]) continue;
      removedCount += 1;
      removedBytes += size;
      options.onRemoved?.({ digest, size });
    }
    keptCount += rows.filter((_, at) => !gone[at]).length;
  };

  let last = '';
  // In a dry run the orphans are still in their repositories.
  const linkedBefore = isDryRun ? since : 0;
  const rows = eachRow(async limit => {
    const page = await contentRows.after(last, limit, linkedBefore);
    last = page.at(-1)?.digest ?? last;
    return page;
  }, signal);
  for await (const row of rows) {
    const { digest, usedAt, isReferred, state } = row;
    if (usedAt > times.latest && !isDryRun) await contentRows.redate(digest);
    const isOld = usedAt < since && !isReferred && !marked.mayHave(digest);
    if (isOld || state === 'going') waiting.push(row);
    else keptCount += 1;
    if (waiting.length >= removedAtOnce) await removeWaiting();
  }
  await removeWaiting();
  if (!isDryRun) {
    await forgetGone(deps, signal);
    await content.endTransfers(now - transferMs, signal);
    await content.removeStrayDrafts(since, await deps.uploads.latest(mostOpen), signal);
    await content.removeDamaged(now - damagedKeptMs, signal);
  }
  return { unlinkedCount, removedCount, removedBytes, keptCount };
}

/** Subtracts content that was removed in other ways from the use of its callers. */
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
