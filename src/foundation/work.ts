import type { Logger } from './telemetry.ts';

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

/** Does the work for each item, a limited number at a time, and returns the results in order. The first failure stops it. */
export async function inTurns<T, R>(
  atOnce: number,
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  let hasFailed = false;
  const workOn = async (): Promise<void> => {
    for (const [position, item] of queue) {
      if (hasFailed) return;
      try {
        results[position] = await work(item);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, workOn));
  return results;
}

/** Work that is done once for all callers, and again after it has failed. */
export interface RememberedWork<T> {
  /** Begins the work, or joins it. */
  get(): Promise<T>;
  /** Returns the work that was begun; undefined for none, and for work that has failed. */
  begun(): Promise<T> | undefined;
}

/** Does work when it is first needed, and keeps its result unless it fails. */
export function rememberSuccess<T>(work: () => Promise<T>): RememberedWork<T> {
  let kept: Promise<T> | undefined;
  return {
    get() {
      kept ??= work().catch(error => {
        kept = undefined;
        throw error;
      });
      return kept;
    },
    begun: () => kept,
  };
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

/** A part that is closed, named for the log. */
export type ClosingPart = readonly [part: string, close: () => unknown];

/** Closes the parts one after the other. Logs a part that fails, and continues with the next one. Never rejects. */
export async function closeInTurn(parts: readonly ClosingPart[], log: Logger): Promise<void> {
  for (const [part, close] of parts) {
    try {
      await close();
    } catch (err) {
      log.error(
        { part, err },
        'a part of the server could not be closed properly: the server stops without it',
      );
    }
  }
}
