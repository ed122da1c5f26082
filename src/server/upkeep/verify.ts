import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../foundation/telemetry/index.ts';
import type { Digest } from '../../oci/digest.ts';
import type { ContentStore, Proof } from '../../storage/content/index.ts';
import {
  eachRow,
  firstPlace,
  type HostedContent,
  type HostedPlace,
  type HostedRow,
  type HostedStore,
} from '../../storage/rows/index.ts';

interface VerifyReport {
  /** Number of contents read, and their bytes. */
  readonly checked: number;
  readonly checkedBytes: number;
  /** Content whose bytes do not match its digest. */
  readonly damaged: readonly Digest[];
  /** Content of hosted repositories that the content store lacks, or has with another size. */
  readonly missing: readonly HostedContent[];
}

/**
 * Reads all content and compares it with its digest. With `removeDamaged`, removes damaged content, so that the next
 * push or pull stores it again. Otherwise changes nothing. Ends with the error of a read that says nothing about the
 * bytes, such as that of an object store that is unavailable.
 *
 * @param onDamaged called for each damaged content, once it is removed
 */
export async function verify(
  content: ContentStore,
  hosted: HostedStore,
  removeDamaged = false,
  onDamaged: (digest: Digest) => void = () => {},
): Promise<VerifyReport> {
  const damaged: Digest[] = [];
  let checked = 0;
  let checkedBytes = 0;
  for await (const { digest, size } of content.list()) {
    checked += 1;
    checkedBytes += size;
    const proof = await (removeDamaged
      ? discardedProof(content, digest)
      : examined(content, digest));
    if (proof !== 'damaged') continue;
    damaged.push(digest);
    onDamaged(digest);
  }
  const missing = await missingContent(content, hosted);
  return { checked, checkedBytes, damaged, missing };
}

/** Returns content of hosted repositories that the content store lacks, or has with another size. */
export async function missingContent(
  content: ContentStore,
  hosted: HostedStore,
): Promise<HostedContent[]> {
  const missing: HostedContent[] = [];
  const check = async ({ repository, digest, size }: HostedContent) => {
    if ((await content.size(digest)) !== size) missing.push({ repository, digest, size });
  };
  for await (const blob of eachAfter(hosted.blobsAfter)) await check(blob);
  for await (const manifest of eachAfter(hosted.manifestsAfter)) {
    // It may also be a blob, and was verified as one.
    const { repository, digest, size } = manifest;
    if ((await hosted.blobSize(repository, digest)) !== size) await check(manifest);
  }
  return missing;
}

function eachAfter(
  rowsAfter: (place: HostedPlace, limit: number) => Promise<HostedRow[]>,
): AsyncIterable<HostedRow> {
  let place: HostedPlace = firstPlace;
  return eachRow(async limit => {
    const rows = await rowsAfter(place, limit);
    place = rows.at(-1) ?? place;
    return rows;
  });
}

/** Removes damaged content. What the disk cannot read is damaged. */
async function discardedProof(content: ContentStore, digest: Digest): Promise<Proof> {
  try {
    return await content.discardDamaged(digest);
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    await content.discard(digest);
    return 'damaged';
  }
}

/**
 * Reads content and changes nothing. Content that was swept since it was listed is absent; content that the disk cannot
 * read is damaged. Throws the error of an object store that is unavailable.
 */
export async function examined(content: ContentStore, digest: Digest): Promise<Proof> {
  try {
    return await content.examine(digest);
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return 'damaged';
  }
}

// EIO, EBADMSG and EUCLEAN of Linux: the disk, or a checksum of the file system. Node has no names for the last two.
const diskErrors = new Set<unknown>([-5, -74, -117]);

/**
 * Returns true for an error of a disk that cannot read a file. After all others, such as those of an object store that
 * is unavailable or of a process without descriptors, the content may be right.
 */
export function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && diskErrors.has(error.errno);
}

interface ScrubOptions {
  /** Bytes of content to read per second. */
  readonly bytesPerSecond: number;
  /** Time from the end of a round to the start of the next (ms). */
  readonly intervalMs: number;
}

/** Result of one round. */
interface ScrubReport {
  readonly checked: number;
  readonly checkedBytes: number;
  /** Number of damaged contents, which are now set aside. */
  readonly damaged: number;
}

// A restart does not begin with reading the disk.
const firstPauseMs = 60_000;
// Unused time is made up for by faster reading, up to this limit.
const slackMs = 1000;
// A timer with more milliseconds than fit in 32 bits fires at once.
const longestSleepMs = 2 ** 31 - 1;

/**
 * Reads all content repeatedly and slowly, so that damage is found while another copy still exists somewhere.
 * Recently served or written content was checked then, and is skipped. `stop` ends the running round.
 */
export function startScrub(
  content: ContentStore,
  options: ScrubOptions,
  log: Logger,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const run = async () => {
    await sleepUnlessAborted(firstPauseMs, signal);
    while (!signal.aborted) {
      try {
        const report = await scrub(content, options.bytesPerSecond, signal);
        log.info(report, 'verified all content');
      } catch (err) {
        if (signal.aborted) return;
        log.error({ err }, 'cannot verify content in the background: the next round retries');
      }
      await sleepUnlessAborted(options.intervalMs, signal);
    }
  };
  const running = run().catch(err => {
    if (!signal.aborted)
      log.error(
        { err },
        'the verification of content in the background has stopped: restart the server to resume it',
      );
  });
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

/** Runs one round. */
export async function scrub(
  content: ContentStore,
  bytesPerSecond: number,
  signal: AbortSignal,
): Promise<ScrubReport> {
  let [checked, checkedBytes, damaged] = [0, 0, 0];
  let dueAt = performance.now();
  const pace = async (bytes: number) => {
    dueAt = Math.max(dueAt, performance.now() - slackMs) + (bytes / bytesPerSecond) * 1000;
    await sleepUnlessAborted(dueAt - performance.now(), signal);
    signal.throwIfAborted();
  };
  // The start is random, so that a server with frequent restarts reaches all content nevertheless.
  for await (const { digest, size } of content.list(Math.random())) {
    signal.throwIfAborted();
    if (content.isFresh(digest)) continue;
    const proof = await content.scrub(digest, pace);
    if (proof === 'absent') continue;
    checked += 1;
    checkedBytes += size;
    if (proof === 'damaged') damaged += 1;
  }
  return { checked, checkedBytes, damaged };
}

/** Sleeps; ends early when the signal aborts. */
async function sleepUnlessAborted(ms: number, signal: AbortSignal): Promise<void> {
  const until = performance.now() + ms;
  for (let left = ms; left > 0 && !signal.aborted; left = until - performance.now()) {
    await sleep(Math.min(left, longestSleepMs), undefined, { signal, ref: false }).catch(() => {});
  }
}
