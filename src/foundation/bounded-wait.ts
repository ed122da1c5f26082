/**
 * Returns the result of the work, or rejects with the reason of the signal when it is aborted first. The work itself goes on,
 * and its failure is then nobody's.
 */
export async function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (!signal) return work;
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([promise, work]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Waits for an event, but no longer than the time (ms); returns false if it has not come. Rejects if the event does so first. */
export async function atMost(ms: number, event: Promise<unknown> | undefined): Promise<boolean> {
  if (!event) return true;
  const { promise, resolve } = Promise.withResolvers<false>();
  const timer = setTimeout(resolve, ms, false);
  try {
    return await Promise.race([event.then(() => true), promise]);
  } finally {
    clearTimeout(timer);
  }
}
