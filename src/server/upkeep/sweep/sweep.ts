import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { SingleFlight } from '../../../foundation/single-flight.ts';
import type { createWorkMetrics, Logger } from '../../../foundation/telemetry/index.ts';
import { mostOpen, removePulls } from '../../../hosted/uploads/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { ContentStore, KeptContent } from '../../../storage/content/index.ts';
import {
  type AnonymousUseStore,
  type BuildStore,
  type ContentRow,
  type ContentRowStore,
  eachRow,
  firstPlace,
  type HostedContent,
  type HostedPlace,
  type HostedRow,
  type HostedStore,
  type PackageLayerStore,
  type PullStore,
  type RequestStore,
  type UploadStore,
} from '../../../storage/rows/index.ts';
import { createDigestFilter, markBuilds, markPackageLayers, markRequests } from './marks.ts';

interface SweepDeps {
  readonly content: ContentStore;
  readonly hosted: HostedStore;
  readonly uploads: Pick<UploadStore, 'latest'>;
  readonly pulls: Pick<PullStore, 'remove'>;
  readonly contentRows: ContentRowStore;
  readonly requests: Pick<RequestStore, 'needsAfter'>;
  readonly builds: Pick<BuildStore, 'unfinished'>;
  readonly packageLayers: Pick<PackageLayerStore, 'after'>;
  readonly anonymousUse: Pick<AnonymousUseStore, 'forget' | 'digestsAfter'>;
}

/** The orphans come first. */
interface SweepOptions extends Omit<OrphanOptions, 'isNeeded'> {
  /** How long content is kept after its last use (ms). */
  readonly graceMs: number;
  /** Called for each removed content. */
  readonly onRemoved?: (content: Pick<KeptContent, 'digest' | 'size'>) => void;
  /** ms since the epoch */
  readonly now?: number;
}

interface SweepReport {
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

interface UnknownContentOptions {
  /** Only counts the contents. */
  readonly isDryRun: boolean;
  readonly signal?: AbortSignal | undefined;
}

const readAtOnce = 128;

/**
 * Enters a row, used now, for content without one: an earlier version stored it, a backup brought it, or a process
 * ended before it could enter the row. Returns how many contents have no row afterwards.
 */
export async function enterUnknown(
  content: ContentStore,
  contentRows: Pick<ContentRowStore, 'unknown'>,
  { isDryRun, signal }: UnknownContentOptions,
): Promise<number> {
  let left = 0;
  let waiting: KeptContent[] = [];
  const enterWaiting = async (): Promise<void> => {
    const digests = waiting.map(({ digest }) => digest);
    waiting = [];
    const unknown = await contentRows.unknown(digests);
    if (isDryRun) left += unknown.length;
    else await Promise.all(unknown.map(content.claim));
    await pauseTurn();
  };
  for await (const found of content.list()) {
    signal?.throwIfAborted();
    waiting.push(found);
    if (waiting.length >= readAtOnce) await enterWaiting();
  }
  await enterWaiting();
  return left;
}

/** Times in ms since the epoch. */
interface OrphanTimes {
  /** A blob that was pushed later than this may still be waiting for its manifest. */
  readonly linkedBefore: number;
  /** A blob with a later time was dated by a wrong clock: it counts as pushed now. */
  readonly latest: number;
  readonly now: number;
}

interface OrphanOptions {
  /** Returns true for content of a live container token. Pulls by its name need the blob in its repository. */
  readonly isNeeded: (digest: Digest) => boolean;
  /** Only reports the blobs, without removing them. */
  readonly isDryRun?: boolean;
  readonly signal?: AbortSignal;
  /** Called for each removed blob. */
  readonly onUnlinked?: (blob: HostedContent) => void;
}

// Blobs per transaction, which takes some milliseconds.
const mostAtOnce = 32;

/**
 * Removes the blobs that neither a manifest of their repository nor a live container token refers to from their
 * repositories, a few at a time; returns how many.
 */
export async function unlinkOrphans(
  hosted: HostedStore,
  times: OrphanTimes,
  { isNeeded, isDryRun = false, signal, onUnlinked }: OrphanOptions,
): Promise<number> {
  let unlinked = 0;
  let waiting: HostedRow[] = [];
  const remove = async (): Promise<void> => {
    const found = waiting;
    waiting = [];
    // The transaction checks again: a manifest may have come.
    const gone = isDryRun ? found : await hosted.removeOrphans(found, times.linkedBefore);
    unlinked += gone.length;
    for (const { repository, digest, size } of gone) onUnlinked?.({ repository, digest, size });
  };

  let place: HostedPlace = firstPlace;
  const read = async (rows: number) => {
    const page = await hosted.loneBlobsAfter(place, rows);
    place = page.at(-1) ?? place;
    return page;
  };
  for await (const blob of eachRow(read, signal)) {
    if (!blob.isLone) continue;
    const { linkedAt } = blob;
    if (linkedAt > times.latest && !isDryRun) {
      await hosted.redate(blob, times.now);
    }
    if (linkedAt < times.linkedBefore && !isNeeded(blob.digest)) waiting.push(blob);
    if (waiting.length >= mostAtOnce) await remove();
  }
  await remove();
  return unlinked;
}

const sweepName = 'remove unreferenced content';

/**
 * Runs one sweep after the other while the server runs, except while the clock is unreliable. `stop` ends the running
 * sweep.
 */
export function startSweeping(
  sweep: (signal: AbortSignal) => Promise<SweepReport>,
  intervalMs: number,
  isSteady: () => Promise<boolean>,
  log: Logger,
  metrics: ReturnType<typeof createWorkMetrics>,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const running = new SingleFlight<void>();
  const run = async () => {
    const began = performance.now();
    try {
      // Content that looks old may be young: it stays until the clock is reliable.
      if (!(await isSteady())) return;
      const { unlinkedCount, removedCount, removedBytes, keptCount } = await sweep(stopping.signal);
      const ms = Math.round(performance.now() - began);
      const counts = { unlinked: unlinkedCount, removed: removedCount, removedBytes };
      metrics.note(sweepName, 'done');
      metrics.noteSwept(removedCount, removedBytes);
      log.info({ ...counts, kept: keptCount, ms }, 'swept');
    } catch (err) {
      if (stopping.signal.aborted) return;
      metrics.note(sweepName, 'failed');
      log.error({ err }, 'the sweep failed: unreferenced content stays until the next sweep');
    }
  };
  const timer = setInterval(() => {
    void running.run(run);
  }, intervalMs).unref();
  return {
    async stop() {
      clearInterval(timer);
      stopping.abort();
      await running.settled();
    },
  };
}
