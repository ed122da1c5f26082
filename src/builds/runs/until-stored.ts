import { setTimeout as sleep } from 'node:timers/promises';
import { isDiskFull, isStorageLost } from '../../foundation/fault.ts';

const firstPauseMs = 250;
const longestPauseMs = 10_000;

/**
 * Repeats a change of the rows for as long as the database does not answer, or its disk is full. Without it, a build that
 * has ended would count as running.
 *
 * @param signal ends the attempts
 * @param onLost called after each failed attempt
 */
export async function untilStored<T>(
  signal: AbortSignal,
  onLost: (error: unknown) => void,
  change: () => Promise<T>,
): Promise<T> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return await change();
    } catch (error) {
      if (signal.aborted || !(isStorageLost(error) || isDiskFull(error))) throw error;
      onLost(error);
      await sleep(pauseMs, undefined, { signal });
    }
  }
}
