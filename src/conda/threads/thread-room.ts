import { Semaphore } from '../../foundation/semaphore.ts';

/** Memory for all threads together, in MiB: what a server of 300 MiB has beside the main thread. */
const allRoom = 130;

/**
 * What work on a thread takes, in MiB, as it was measured with large environments. A package that needs much takes all.
 */
export const threadNeeds = {
  solve: 60,
  repodata: 80,
  layer: 40,
  documents: 30,
  disputes: 60,
  large: allRoom,
};

const room = new Semaphore({ limit: allRoom });

/**
 * Runs work on a thread when there is room for it beside the work of others, in the order in which it came. The work must
 * not wait for room itself.
 *
 * @param need one of {@link threadNeeds}
 */
export const inRoom = <T>(need: number, work: () => Promise<T>): Promise<T> =>
  room.run(work, { weight: need });
