import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../fault.ts';
import { BuilderLost } from './builders.ts';

// A builder that is started anew is there within seconds.
const pausesMs = [1000, 2000, 4000, 8000];

/**
 * Does the work again when its builder went away, or none answered; never when the recipe failed.
 *
 * @param onLost hears of each time that is not the last
 */
export async function withPatience<T>(
  signal: AbortSignal,
  onLost: (error: BuilderLost) => void,
  work: () => Promise<T>,
): Promise<T> {
  for (const pauseMs of pausesMs) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof BuilderLost) || signal.aborted) throw error;
      onLost(error);
      await sleep(pauseMs, undefined, { signal });
    }
  }
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof BuilderLost)) throw error;
    const message = `${error.message}, ${pausesMs.length + 1} times: try again later`;
    throw new Fault('unavailable', message, { phase: 'build', cause: error });
  }
}
