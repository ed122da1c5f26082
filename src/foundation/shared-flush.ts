/**
 * Lets all who wait for the disk share its work: returns a function that resolves after a run of `flush` which
 * began after the call. One that is under way may have missed the last change, so those who come meanwhile
 * share the next.
 */
export function sharedFlush(flush: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const start = (): Promise<void> => {
    const started = flush().finally(() => {
      if (running === started) running = undefined;
    });
    running = started;
    return started;
  };
  return () => {
    if (!running) return start();
    next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined;
        return start();
      });
    return next;
  };
}
