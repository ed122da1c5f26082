import { setTimeout as sleep } from 'node:timers/promises';

/** Copies logs that could not be copied in time. */
export interface LateLogs {
  /** Copies the log of an ended build as soon as the archive takes it. Forgets the oldest one when too many wait. */
  add(id: string): void;
  /** The log is not wanted any more. */
  remove(id: string): void;
}

const mostWaiting = 10_000;
/** Pauses between attempts to reach the archive. */
export const [firstPauseMs, longestPauseMs] = [1000, 60_000];

/**
 * @param copy rejects when the archive does not take the log now
 * @param firstMs the pause before the first attempt; later ones grow up to a minute. Default: a second
 */
export function createLateLogs(
  copy: (id: string) => Promise<unknown>,
  firstMs = firstPauseMs,
): LateLogs {
  const waiting = new Set<string>();
  let isWorking = false;

  /** Copies one after the other. A failure says that the archive is still away. */
  const work = async (): Promise<void> => {
    for (let pauseMs = firstMs; waiting.size > 0; ) {
      await sleep(pauseMs, undefined, { ref: false });
      try {
        for (const id of waiting) {
          await copy(id);
          waiting.delete(id);
        }
        pauseMs = firstMs;
      } catch {
        pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      }
    }
    isWorking = false;
  };

  return {
    add(id) {
      const [oldest] = waiting;
      if (waiting.size >= mostWaiting && oldest !== undefined) waiting.delete(oldest);
      waiting.add(id);
      if (isWorking) return;
      isWorking = true;
      void work();
    },
    remove: id => void waiting.delete(id),
  };
}
