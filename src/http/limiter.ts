import { boundedCache } from '../bounded-cache.ts';
import { Fault } from '../fault.ts';

/** So many events in so many seconds; a count of 0 allows none. */
export interface Rate {
  readonly count: number;
  readonly seconds: number;
}

/** What is left to a caller. */
export interface Allowance {
  readonly limit: number;
  readonly remaining: number;
  /** Until everything is available again. */
  readonly resetSeconds: number;
}

export interface Limiter {
  /** Takes one event; throws a {@link Fault}: 429 when none is left, 403 when there never is one. */
  take(key: string, rate: Rate): Allowance;
  /** Throws like {@link take} when none is left, but takes nothing. */
  check(key: string, rate: Rate): void;
  /**
   * Counts one event that has happened, whether one was left or not; but nobody waits for longer than the
   * time of the rate, however many have happened.
   */
  note(key: string, rate: Rate): void;
  /** What is left. */
  peek(key: string, rate: Rate): Allowance;
}

const maxKeys = 100_000;
// Part of an event: rounding of the times must not cost the last one.
const tolerance = 0.001;

/**
 * A token bucket for each key, kept as one number: the moment when it will be full again (the generic
 * cell rate algorithm). No window edges, no timers.
 *
 * @param what is limited, for the message: `pulls`
 * @param now ms on a scale that no change of the wall clock moves
 * @param advice what else can be done than to wait, for the message
 */
export function createLimiter(
  what: string,
  now: () => number = () => performance.now(),
  advice = 'send a platform access token with the container request, which raises the limit',
): Limiter {
  const full = boundedCache<string, number>(maxKeys);

  const look = (
    key: string,
    rate: Rate,
    cost: number,
  ): { allowance: Allowance; fullAt: number } => {
    const at = now();
    if (rate.count === 0) {
      return { allowance: { limit: 0, remaining: 0, resetSeconds: rate.seconds }, fullAt: at };
    }
    const intervalMs = (rate.seconds * 1000) / rate.count;
    const fullAt = Math.max(full.get(key) ?? at, at) + cost * intervalMs;
    const overMs = fullAt - at - rate.seconds * 1000;
    const allowance = {
      limit: rate.count,
      remaining: Math.max(0, Math.floor(-overMs / intervalMs + tolerance)),
      resetSeconds: Math.ceil((fullAt - at) / 1000),
    };
    return { allowance, fullAt };
  };
  const refuseBelowOne = (key: string, rate: Rate): void => {
    if (rate.count === 0) throw none(what, advice);
    const { allowance, fullAt } = look(key, rate, 1);
    const waitMs = fullAt - now() - rate.seconds * 1000;
    if ((waitMs * rate.count) / (rate.seconds * 1000) > tolerance)
      throw exhausted(what, rate, waitMs / 1000, allowance, advice);
  };

  return {
    take(key, rate) {
      refuseBelowOne(key, rate);
      const { allowance, fullAt } = look(key, rate, 1);
      full.set(key, fullAt);
      return allowance;
    },
    check: refuseBelowOne,
    note(key, rate) {
      const longestMs = (2 - 1 / rate.count) * rate.seconds * 1000;
      full.set(key, Math.min(look(key, rate, 1).fullAt, now() + longestMs));
    },
    peek: (key, rate) => look(key, rate, 0).allowance,
  };
}

/** The `RateLimit-*` headers (draft-ietf-httpapi-ratelimit-headers-03, the form that is in use). */
export function limitHeaders({
  limit,
  remaining,
  resetSeconds,
}: Allowance): Record<string, string> {
  return {
    'ratelimit-limit': String(limit),
    'ratelimit-remaining': String(remaining),
    'ratelimit-reset': String(resetSeconds),
  };
}

function exhausted(
  what: string,
  rate: Rate,
  waitSeconds: number,
  allowance: Allowance,
  advice: string,
): Fault {
  return new Fault(
    'too-many-requests',
    `The limit of ${rate.count} ${what} per ${duration(rate.seconds)} is reached: try again in ${Math.ceil(waitSeconds)} s, or ${advice}`,
    {
      phase: 'limit',
      retryAfterSeconds: waitSeconds,
      headers: limitHeaders({ ...allowance, remaining: 0 }),
    },
  );
}

/** To wait does not help. */
function none(what: string, advice: string): Fault {
  return new Fault('denied', `This server allows no ${what} to this caller: ${advice}`, {
    phase: 'limit',
    cause: new Error('a rate of 0 below limits'),
  });
}

function duration(seconds: number): string {
  const names: Readonly<Record<number, string>> = {
    1: 'second',
    60: 'minute',
    3600: 'hour',
    86400: 'day',
  };
  return names[seconds] ?? `${seconds} s`;
}
