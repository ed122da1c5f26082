import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
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

export function createLayerFetches<T>({
  timeoutMs,
  perCaller = 16,
  atOnce = 48,
  waitMs = 60_000,
  lingerMs = 5000,
}: FetchLimits): LayerFetches<T> {
  const flights = new SingleFlight<T>({ lingerMs });
  const limits = { limit: atOnce, perKey: perCaller, refusal: tooMany };
  const users = new Semaphore(limits);
  // Anonymous callers cannot block the fetches of callers with a login.
  const anonymous = new Semaphore(limits);

  const inTime = async (
    given: AbortSignal,
    fetch: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(tooSlow(timeoutMs)), timeoutMs);
    try {
      return await fetch(AbortSignal.any([given, late.signal]));
    } finally {
      clearTimeout(timer);
    }
  };

  return (key, { network, user, signal }, fetch) =>
    flights.run(
      stop =>
        (network === undefined ? users : anonymous).run(() => inTime(stop, fetch), {
          key: network ?? user,
          waitMs,
          signal: stop,
        }),
      { key, signal },
    );
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
