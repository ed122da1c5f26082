import { unlessAborted } from '../../foundation/bounded-wait.ts';
import { Fault } from '../../foundation/fault.ts';
import { Turns } from '../../upstream/transport/turns.ts';
import type { Caller } from '../container-request.ts';

export interface FetchLimits {
  /** Timeout of one fetch (ms). */
  readonly timeoutMs: number;
  /** Concurrent fetches of one user, or of one network without a login. */
  readonly perCaller?: number;
  /** Concurrent fetches of all callers with a login, and as many for all others. */
  readonly atOnce?: number;
  /** How long a fetch waits for its turn (ms). */
  readonly waitMs?: number;
  /** How long a fetch continues after its last caller has disconnected (ms): clients often retry after a timeout. */
  readonly lingerMs?: number;
}

/** The caller of a fetch; its signal is aborted when it disconnects. */
export interface FetchCaller extends Pick<Caller, 'network' | 'user'> {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs one fetch for all callers with the same key. It ends at its timeout, and soon after its last caller has
 * disconnected. Rejects with a {@link Fault} (503) when too many fetches are running, and with the signal's reason for
 * a caller that has disconnected.
 */
export type LayerFetches<T> = (
  key: string,
  caller: FetchCaller,
  fetch: (signal: AbortSignal) => Promise<T>,
) => Promise<T>;

interface Shared<T> {
  readonly done: Promise<T>;
  readonly stop: AbortController;
  callers: number;
  linger?: NodeJS.Timeout;
}

export function createLayerFetches<T>({
  timeoutMs,
  perCaller = 16,
  atOnce = 48,
  waitMs = 60_000,
  lingerMs = 5000,
}: FetchLimits): LayerFetches<T> {
  const running = new Map<string, Shared<T>>();
  const ofCaller = new Turns(perCaller, tooMany);
  // Anonymous callers cannot block the fetches of callers with a login.
  const ofAll = new Turns(atOnce, tooMany);

  const inTime = async (stop: AbortController, fetch: () => Promise<T>): Promise<T> => {
    const timer = setTimeout(() => stop.abort(tooSlow(timeoutMs)), timeoutMs);
    try {
      return await fetch();
    } finally {
      clearTimeout(timer);
    }
  };

  const inTurn = async (
    { network, user = '' }: FetchCaller,
    stop: AbortController,
    fetch: () => Promise<T>,
  ): Promise<T> => {
    const leave = await ofCaller.take(network ?? user, waitMs, stop.signal);
    try {
      const kind = network === undefined ? 'with a login' : 'without a login';
      const leaveAll = await ofAll.take(kind, waitMs, stop.signal);
      try {
        return await inTime(stop, fetch);
      } finally {
        leaveAll();
      }
    } finally {
      leave();
    }
  };

  const start = (
    key: string,
    caller: FetchCaller,
    fetch: (signal: AbortSignal) => Promise<T>,
  ): Shared<T> => {
    const stop = new AbortController();
    const done = inTurn(caller, stop, () => fetch(stop.signal)).finally(() => end(key, shared));
    // All its callers may have disconnected.
    done.catch(() => {});
    const shared: Shared<T> = { done, stop, callers: 0 };
    running.set(key, shared);
    return shared;
  };

  const end = (key: string, shared: Shared<T>): void => {
    clearTimeout(shared.linger);
    if (running.get(key) === shared) running.delete(key);
  };

  const leave = (key: string, shared: Shared<T>): void => {
    shared.callers -= 1;
    if (shared.callers > 0 || running.get(key) !== shared) return;
    shared.linger = setTimeout(() => {
      end(key, shared);
      shared.stop.abort(new Error('every caller has left'));
    }, lingerMs);
  };

  return async (key, caller, fetch) => {
    const shared = running.get(key) ?? start(key, caller, fetch);
    shared.callers += 1;
    clearTimeout(shared.linger);
    try {
      return await unlessAborted(shared.done, caller.signal);
    } finally {
      leave(key, shared);
    }
  };
}

function tooMany(): Fault {
  return new Fault(
    'unavailable',
    'Too many layers are being fetched at the moment, and none of them finished in time: try again later',
    { phase: 'limit', limit: 'layers fetched at once', retryAfterSeconds: 30 },
  );
}

function tooSlow(timeoutMs: number): Fault {
  return new Fault(
    'bad-request',
    `it takes longer than ${Math.round(timeoutMs / 1000)} s: put the layer on a faster server, or ask the operator to raise layers.fetchTimeout`,
    { phase: 'upstream' },
  );
}
