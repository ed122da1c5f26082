import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../foundation/telemetry/index.ts';
import type { ContentStore } from '../../storage/content/index.ts';

export interface ScrubOptions {
  /** Bytes of content to read per second. */
  readonly bytesPerSecond: number;
  /** Time from the end of a round to the start of the next (ms). */
  readonly intervalMs: number;
}

/** Result of one round. */
export interface ScrubReport {
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
    await pause(firstPauseMs, signal);
    while (!signal.aborted) {
      try {
        const report = await scrub(content, options.bytesPerSecond, signal);
        log.info(report, 'verified all content');
      } catch (err) {
        if (signal.aborted) return;
        log.error({ err }, 'cannot verify content in the background: the next round retries');
      }
      await pause(options.intervalMs, signal);
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
    await pause(dueAt - performance.now(), signal);
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
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const until = performance.now() + ms;
  for (let left = ms; left > 0 && !signal.aborted; left = until - performance.now()) {
    await sleep(Math.min(left, longestSleepMs), undefined, { signal, ref: false }).catch(() => {});
  }
}
