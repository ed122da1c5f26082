import { setTimeout as sleep } from 'node:timers/promises';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { unlessAborted } from '../../foundation/work.ts';

/** A limit: at most `count` calls within any `ms` milliseconds. */
export interface Window {
  readonly count: number;
  readonly ms: number;
}

/** A queue for each token, in which calls wait until the platform's limits admit them, in order of arrival. */
export interface CallLine {
  /**
   * Resolves when the call may be made, with a function that the caller runs when the response arrives: until then, it
   * is unknown when the platform counted the call. Rejects with the signal's reason, and with a {@link Fault} (429)
   * when the wait would be too long.
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

/** A call that was made or is waiting. */
interface Turn {
  /** When the call was or will be made, as far as is known. */
  start: number;
  /** When the response arrived. */
  over: number | undefined;
  /** Resolves when the response arrives; set while a call waits for that. */
  ending: PromiseWithResolvers<void> | undefined;
}

interface Line {
  /** The oldest call is first. */
  turns: Turn[];
  /** Resolves when the last of these calls has begun. */
  begun: Promise<void>;
}

const maxTokens = 10_000;

/** Source: platform specification, section 8: its limits apply to each access token, over all requests. */
export function createCallLine(deps: CallLineDeps): CallLine {
  const { windows, longestWaitMs, now = () => performance.now(), pause = wait } = deps;
  const mostCalls = Math.max(...windows.map(({ count }) => count));
  const lines = boundedCache<string, Line>(maxTokens);

  /** Returns when the next call may be made if all earlier calls get their responses at once. */
  const earliest = (turns: readonly Turn[], at: number): number =>
    Math.max(
      at,
      // A call never overtakes the calls that already wait.
      turns.at(-1)?.start ?? at,
      ...windows.map(({ count, ms }) => (turns.at(-count)?.start ?? Number.NEGATIVE_INFINITY) + ms),
    );

  /**
   * Waits until the earlier calls have been over for long enough. Two of any count + 1 calls are then that far apart,
   * however long each was under way.
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
          `Too many requests with this platform token are waiting for the rate limit of the platform: try again in ${seconds} s`,
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

const wait = (ms: number, signal: AbortSignal | undefined) =>
  sleep(Math.ceil(ms), undefined, signal ? { signal } : {});
