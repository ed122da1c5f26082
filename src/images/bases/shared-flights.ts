import { unlessAborted } from '../../foundation/bounded-wait.ts';

/** Runs work once for all callers that want it at the same time. */
export type SharedFlights<T> = (
  key: string,
  run: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
) => Promise<T>;

interface Flight<T> {
  readonly result: Promise<T>;
  readonly stop: AbortController;
  waiting: number;
}

/**
 * Returns flights of one kind of work. A flight is aborted when its last caller leaves. Each caller may have other rights
 * than the one whose work failed, so it then does the work itself.
 */
export function createSharedFlights<T>(): SharedFlights<T> {
  const flights = new Map<string, Flight<T>>();

  const begin = (key: string, run: (signal: AbortSignal) => Promise<T>): Flight<T> => {
    const stop = new AbortController();
    const forget = () => {
      if (flights.get(key) === flight) flights.delete(key);
    };
    const result = run(stop.signal).finally(forget);
    // A flight without callers has nobody to report to.
    result.catch(() => {});
    const flight = { result, stop, waiting: 0 };
    stop.signal.addEventListener('abort', forget, { once: true });
    flights.set(key, flight);
    return flight;
  };

  const wait = async (flight: Flight<T>, signal: AbortSignal): Promise<T> => {
    flight.waiting += 1;
    try {
      return await unlessAborted(flight.result, signal);
    } finally {
      flight.waiting -= 1;
      if (flight.waiting === 0) flight.stop.abort(signal.reason);
    }
  };

  return async (key, run, signal) => {
    signal.throwIfAborted();
    const running = flights.get(key);
    if (!running) return wait(begin(key, run), signal);
    try {
      return await wait(running, signal);
    } catch {
      signal.throwIfAborted();
      return wait(flights.get(key) ?? begin(key, run), signal);
    }
  };
}
