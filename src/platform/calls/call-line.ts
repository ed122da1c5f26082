import { setTimeout as sleep } from 'node:timers/promises';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';

/** At most so many calls within any span of so many milliseconds. */
export interface Window {
  readonly count: number;
  readonly ms: number;
}

/** Where calls wait until the platform's limits let them through, in the order they came, a line for each token. */
export interface CallLine {
  /**
   * Resolves when the call may be made, with what the caller runs when its answer is there: until then nobody knows
   * when the platform has counted it. Rejects with the signal's reason, and with a {@link Fault} (429) when the wait
   * would be longer than anybody waits.
   */
  enter(token: string, signal?: AbortSignal): Promise<() => void>;
}

export interface CallLineDeps {
  readonly windows: readonly Window[];
  readonly longestWaitMs: number;
  /** Milliseconds of any clock that never goes back. */
  readonly now?: () => number;
  readonly pause?: (ms: number, signal: AbortSignal | undefined) => Promise<unknown>;
}

/** A call that was made or waits. */
interface Turn {
  /** When it was or will be made, as far as is known. */
  start: number;
  /** When it was answered. */
  over: number | undefined;
  /** Resolves then; there while somebody waits for it. */
  ending: PromiseWithResolvers<void> | undefined;
}

interface Line {
  /** The oldest first. */
  turns: Turn[];
  /** Resolves when the last of them has begun. */
  begun: Promise<void>;
}

const maxTokens = 10_000;

/** Source: platform specification, section 8: its limits are for each access token, over all requests. */
export function createCallLine(deps: CallLineDeps): CallLine {
  const { windows, longestWaitMs, now = () => performance.now(), pause = wait } = deps;
  const mostCalls = Math.max(...windows.map(({ count }) => count));
  const lines = boundedCache<string, Line>(maxTokens);

  /** When the next call may be made if all before it are answered at once. */
  const earliest = (turns: readonly Turn[], at: number): number =>
    Math.max(
      at,
      // Nobody overtakes those who wait already.
      turns.at(-1)?.start ?? at,
      ...windows.map(({ count, ms }) => (turns.at(-count)?.start ?? Number.NEGATIVE_INFINITY) + ms),
    );

  /**
   * Waits for the calls that have to be over for a while. Of any count + 1 calls two are then so far apart, however
   * long each was on its way.
   */
  const stand = async (before: ReadonlyArray<readonly [Turn, number]>, signal?: AbortSignal) => {
    for (const [turn, ms] of before) {
      if (turn.over === undefined) {
        turn.ending ??= Promise.withResolvers<void>();
        await unlessAborted(turn.ending.promise, signal);
      }
      for (;;) {
        const left = (turn.over ?? 0) + ms - now();
        if (left <= 0) break;
        await pause(left, signal);
      }
    }
  };

  return {
    async enter(token, signal) {
      signal?.throwIfAborted();
      const line = lines.get(token) ?? { turns: [], begun: Promise.resolve() };
      const { turns } = line;
      const at = now();
      const start = earliest(turns, at);
      if (start - at > longestWaitMs) {
        const seconds = Math.ceil((start - at) / 1000);
        throw new Fault(
          'too-many-requests',
          `So many requests with this platform token are waiting that the platform's limits allow the next one in ${seconds} s: try again then`,
          { phase: 'credentials', retryAfterSeconds: seconds },
        );
      }
      const before = windows.flatMap(({ count, ms }) => {
        const turn = turns.at(-count);
        return turn ? [[turn, ms] as const] : [];
      });
      const own: Turn = { start, over: undefined, ending: undefined };
      const previous = line.begun;
      const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
      line.begun = begun;
      turns.push(own);
      if (turns.length > 2 * mostCalls) turns.splice(0, turns.length - mostCalls);
      lines.set(token, line);
      const leave = () => {
        own.over ??= now();
        own.ending?.resolve();
      };
      try {
        await stand(before, signal);
        await unlessAborted(previous, signal);
        own.start = now();
      } catch (error) {
        leave();
        throw error;
      } finally {
        begin();
      }
      return leave;
    },
  };
}

/** The promise, or the signal's reason when it aborts before. */
async function unlessAborted(promise: Promise<void>, signal: AbortSignal | undefined) {
  if (!signal) return promise;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

const wait = (ms: number, signal: AbortSignal | undefined) =>
  sleep(Math.ceil(ms), undefined, signal ? { signal } : {});
