import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../foundation/fault.ts';
import { BuilderLost } from '../builder/builders.ts';

// A builder that is started anew is there within seconds.
const pausesMs = [1000, 2000, 4000, 8000];
// A build that takes its builder along each time must not go on doing so.
const mostLost = 3;

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
  let lost = 0;
  for (let tried = 1; ; tried += 1) {
    // It may have been aborted before there was anything to listen to it.
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof BuilderLost) || signal.aborted) throw error;
      if (error.hadBegun) lost += 1;
      const pauseMs = lost < mostLost ? pausesMs[tried - 1] : undefined;
      if (pauseMs === undefined) {
        const message = `${error.message} (tried ${tried} times): try again later`;
        throw new Fault('unavailable', message, { phase: 'build', cause: error });
      }
      onLost(error);
      await sleep(pauseMs, undefined, { signal });
    }
  }
}
