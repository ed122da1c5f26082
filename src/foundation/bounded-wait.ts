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

/** Waits for an event, but no longer than the time (ms). Rejects if the event does so first. */
export async function atMost(ms: number, event: Promise<unknown> | undefined): Promise<void> {
  if (!event) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await Promise.race([event, promise]);
  } finally {
    clearTimeout(timer);
  }
}
