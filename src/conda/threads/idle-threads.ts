/** Memory of the process above which idle threads end before another one starts. */
const roomyBytes = 180 * 1024 * 1024;

const idle = new Set<() => Promise<unknown>>();

/**
 * Notes a thread that is kept for later work. {@link makeRoom} may end it.
 *
 * @param end ends the thread; called once at most
 * @returns a function to call when the thread works again, or has ended
 */
export function noteIdle(end: () => Promise<unknown>): () => void {
  idle.add(end);
  return () => idle.delete(end);
}

/**
 * Ends the threads that have nothing to do when the process is large, so that the solver, the threads of layers and
 * those of documents are not in memory together. Call it before a thread starts.
 */
export async function makeRoom(): Promise<void> {
  if (idle.size > 0 && process.memoryUsage.rss() >= roomyBytes) await endIdleThreads();
}

/** Ends all threads that have nothing to do. */
export async function endIdleThreads(): Promise<void> {
  const ends = [...idle];
  idle.clear();
  await Promise.all(ends.map(end => end()));
}
