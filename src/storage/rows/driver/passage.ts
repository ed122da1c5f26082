import { Semaphore } from '../../../foundation/semaphore.ts';

/** Lets work run side by side, and work that would never end beside other work alone. */
export interface Passage {
  /** Runs the work beside others, and waits while some work is alone. */
  together<T>(work: () => Promise<T>): Promise<T>;
  /** Waits until all work that runs has ended, and runs this one alone. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

// More than ever run side by side.
const all = 2 ** 31;

export function createPassage(): Passage {
  const places = new Semaphore({ limit: all });
  return {
    together: work => places.run(work),
    alone: work => places.run(work, { weight: all }),
  };
}
