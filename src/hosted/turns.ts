import { Fault } from '../fault.ts';

/** Lets so many run at once, in the order in which they came. */
export interface Turns {
  /**
   * Runs the work when it is its turn. Rejects with what the work throws, and with a {@link Fault} (503) where
   * too many wait.
   */
  run<T>(work: () => Promise<T>): Promise<T>;
}

export function createTurns(atOnce: number, mostWaiting: number): Turns {
  const waiting: (() => void)[] = [];
  let running = 0;
  return {
    async run(work) {
      if (running >= atOnce) {
        if (waiting.length >= mostWaiting) {
          throw new Fault('unavailable', 'Too many logins are being checked: try again', {
            phase: 'credentials',
            retryAfterSeconds: 5,
          });
        }
        // Whoever ends hands the turn over, so that nobody comes in between.
        await new Promise<void>(resolve => waiting.push(resolve));
      } else running += 1;
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else running -= 1;
      }
    },
  };
}
