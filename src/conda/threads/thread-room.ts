import { type Permit, Semaphore } from '../../foundation/semaphore.ts';

/** Memory for all threads together, in MiB: what a server of 300 MiB has beside the main thread. */
const allRoom = 130;

/**
 * What work on a thread takes, in MiB, as it was measured with large environments. A package that needs much takes all.
 */
export const threadNeeds = {
  solve: 60,
  repodata: 80,
  layer: 45,
  documents: 30,
  pages: 40,
  disputes: 60,
  large: allRoom,
};

const room = new Semaphore({ limit: allRoom });
let working = 0;

/**
 * Runs work on a thread when there is room for it beside the work of others, in the order in which it came. The work must
 * not wait for room itself.
 *
 * @param need one of {@link threadNeeds}
 */
export const inRoom = <T>(need: number, work: () => Promise<T>): Promise<T> =>
  room.run(
    async () => {
      working += 1;
      try {
        return await work();
      } finally {
        working -= 1;
      }
    },
    { weight: need },
  );

/**
 * Takes room for work that cannot wait for it, because the time of a solver passes meanwhile. Work that begins later has less.
 *
 * @param need one of {@link threadNeeds}
 * @returns a function to call when the work is done
 */
export function takeRoom(need: number): () => void {
  const taken: Promise<Permit> = room.take({ weight: need, key: 'at once' });
  return () => void taken.then(permit => permit[Symbol.dispose]());
}

/** Returns whether threads work that had to find room. */
export const isWorkInRoom = (): boolean => working > 0;
