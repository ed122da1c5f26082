import { setTimeout as sleep } from 'node:timers/promises';
import { boundedCache } from '../bounded-cache.ts';
import { Fault } from '../fault.ts';

/** At most so many calls within any span of so many milliseconds. */
export interface Window {
  readonly count: number;
  readonly ms: number;
}

/** Where calls wait until the platform's limits let them through, in the order they came, a line for each token. */
export interface CallLine {
  /**
   * Resolves when the call may be made; it counts from then on. Rejects with the signal's reason, and with a
   * {@link Fault} (429) when the wait would be longer than anybody waits.
   */
  enter(token: string, signal?: AbortSignal): Promise<void>;
}

export interface CallLineDeps {
  readonly windows: readonly Window[];
  readonly longestWaitMs: number;
  /** Milliseconds of any clock that never goes back. */
  readonly now?: () => number;
  readonly pause?: (ms: number, signal: AbortSignal | undefined) => Promise<unknown>;
}

const maxTokens = 10_000;

/** Source: platform specification, section 8: its limits are for each access token, over all requests. */
export function createCallLine(deps: CallLineDeps): CallLine {
  const { windows, longestWaitMs, now = () => performance.now(), pause = wait } = deps;
  const mostCalls = Math.max(...windows.map(({ count }) => count));
  // When the calls of each token were or will be made, the oldest first.
  const lines = boundedCache<string, number[]>(maxTokens);

  const earliest = (starts: readonly number[], at: number): number =>
    Math.max(
      at,
      // Nobody overtakes those who wait already.
      starts.at(-1) ?? at,
      ...windows.map(({ count, ms }) => (starts.at(-count) ?? Number.NEGATIVE_INFINITY) + ms),
    );

  return {
    async enter(token, signal) {
      signal?.throwIfAborted();
      const starts = lines.get(token) ?? [];
      const at = now();
      const start = earliest(starts, at);
      if (start - at > longestWaitMs) {
        const seconds = Math.ceil((start - at) / 1000);
        throw new Fault(
          'too-many-requests',
          `So many requests with this platform token are waiting that the platform's limits allow the next one in ${seconds} s: try again then`,
          { phase: 'credentials', retryAfterSeconds: seconds },
        );
      }
      starts.push(start);
      if (starts.length > 2 * mostCalls) starts.splice(0, starts.length - mostCalls);
      lines.set(token, starts);
      if (start > at) await pause(start - at, signal);
    },
  };
}

const wait = (ms: number, signal: AbortSignal | undefined) =>
  sleep(Math.ceil(ms), undefined, signal ? { signal } : {});
