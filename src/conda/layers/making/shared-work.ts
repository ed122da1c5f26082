/**
 * Runs one piece of work for all callers with the same key. Ends it when its last caller has left. Rejects with the
 * reason of the signal for a caller that has left.
 */
export type ShareWork<T> = (
  key: string,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
) => Promise<T>;

interface Shared<T> {
  readonly done: Promise<T>;
  readonly stop: AbortController;
  callers: number;
}

export function createSharedWork<T>(): ShareWork<T> {
  const running = new Map<string, Shared<T>>();

  const start = (key: string, work: (signal: AbortSignal) => Promise<T>): Shared<T> => {
    const stop = new AbortController();
    const done = work(stop.signal).finally(() => end(key, shared));
    // All its callers may have left.
    done.catch(() => {});
    const shared: Shared<T> = { done, stop, callers: 0 };
    running.set(key, shared);
    return shared;
  };
  const end = (key: string, shared: Shared<T>): void => {
    if (running.get(key) === shared) running.delete(key);
  };

  return async (key, signal, work) => {
    signal.throwIfAborted();
    const shared = running.get(key) ?? start(key, work);
    shared.callers += 1;
    const left = Promise.withResolvers<never>();
    const leave = () => left.reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([shared.done, left.promise]);
    } finally {
      signal.removeEventListener('abort', leave);
      shared.callers -= 1;
      if (shared.callers === 0) {
        end(key, shared);
        shared.stop.abort(new Error('nobody waits for it any more'));
      }
    }
  };
}
