import { setTimeout as sleep } from 'node:timers/promises';
import { Fault, isStorageLost } from '../../foundation/fault.ts';
import { BuilderLost } from '../builder/builder-refusals.ts';

// A restarted builder or database is available within seconds.
const pausesMs = [1000, 2000, 4000, 8000];
// A build that ends its builder each time must not be tried forever.
const mostLost = 3;

/**
 * Repeats the work when the connection to its builder was lost, when no builder answered, or when the database or the
 * object store did not; never when the recipe failed.
 *
 * @param onLost called after each failed attempt except the last one
 */
export async function withBuildRetries<T>(
  signal: AbortSignal,
  onLost: (error: Fault) => void,
  work: () => Promise<T>,
): Promise<T> {
  let lost = 0;
  for (let tried = 1; ; tried += 1) {
    // The signal may have been aborted before anything listened to it.
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || !(error instanceof Fault)) throw error;
      if (!(error instanceof BuilderLost || isStorageLost(error))) throw error;
      if (error instanceof BuilderLost && error.hadBegun) lost += 1;
      const pauseMs = lost < mostLost ? pausesMs[tried - 1] : undefined;
      if (pauseMs === undefined) throw error instanceof BuilderLost ? gone(error, tried) : error;
      onLost(error);
      await sleep(pauseMs, undefined, { signal });
    }
  }
}

function gone(error: BuilderLost, tried: number): Fault {
  const message = `${error.message} (tried ${tried} times): try again later`;
  return new Fault('unavailable', message, { phase: 'build', cause: error });
}
