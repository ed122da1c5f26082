import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';

/** A number of events per number of seconds; a count of 0 allows none. */
export interface Rate {
  readonly count: number;
  readonly seconds: number;
}

/** The events that a caller has left. */
export interface Allowance {
  readonly limit: number;
  readonly remaining: number;
  /** Until everything is available again; with none left, until the next one is. */
  readonly resetSeconds: number;
}

export interface Limiter {
  /**
   * Takes one event; throws a {@link Fault}: 429 when none is left, 403 when there never is one. `advice` is what
   * this caller can do.
   */
  take(key: string, rate: Rate, advice?: string): Allowance;
  /** Throws like {@link take} when none is left, but takes nothing. */
  check(key: string, rate: Rate, advice?: string): void;
  /** Counts an event, even when none is left. */
  note(key: string, rate: Rate): void;
  /** Returns an event to the caller, for work that failed through no fault of the caller. */
  giveBack(key: string, rate: Rate): void;
  /** What is left. */
  peek(key: string, rate: Rate): Allowance;
}

const maxKeys = 50_000;
// A key with more events keeps them in groups, each counted until its last one is over: never too few. There are many
// keys: one has 3 KiB at most.
const exactEvents = 32;

/** Events that end together. */
interface Group {
  /** When the first and the last of them happened (ms). */
  readonly since: number;
  until: number;
  count: number;
}

/**
 * Admits at most the count of a rate within any span of its time: a sliding window, without edges and timers.
 * An event is free again when its time is over; with more than 32 in a window up to 1/32 of the time later.
 *
 * @param what is limited, for the message: `pulls`
 * @param now ms on a scale that no change of the wall clock moves
 * @param usualAdvice what else can be done than to wait, for the message
 */
export function createLimiter(
  what: string,
  now: () => number = () => performance.now(),
  usualAdvice = 'ask the operator of this server to raise the limit',
): Limiter {
  const events = boundedCache<string, Group[]>(maxKeys);

  /** The groups that count still, oldest first. */
  const counting = (key: string, { seconds }: Rate): Group[] => {
    const groups = events.get(key) ?? [];
    const over = now() - seconds * 1000;
    while (groups[0] && groups[0].until <= over) groups.shift();
    return groups;
  };

  const add = (key: string, rate: Rate): void => {
    const groups = counting(key, rate);
    const at = now();
    const last = groups.at(-1);
    const isFew = rate.count <= exactEvents && groups.length < exactEvents;
    if (last && !isFew && at - last.since < (rate.seconds * 1000) / exactEvents) {
      last.until = at;
      last.count += 1;
    } else {
      groups.push({ since: at, until: at, count: 1 });
    }
    events.set(key, groups);
  };

  const peek = (key: string, rate: Rate): Allowance => {
    const groups = counting(key, rate);
    const used = groups.reduce((sum, { count }) => sum + count, 0);
    // While some are left, all groups are waited for; with none left, those until the next one is free.
    let last = groups.at(-1);
    for (let [at, kept] = [0, used]; kept >= rate.count && at < groups.length; at += 1) {
      last = groups[at];
      kept -= last?.count ?? 0;
    }
    const resetMs = last ? last.until + rate.seconds * 1000 - now() : 0;
    return {
      limit: rate.count,
      remaining: Math.max(0, rate.count - used),
      resetSeconds: rate.count === 0 ? rate.seconds : resetMs / 1000,
    };
  };

  const check = (key: string, rate: Rate, advice = usualAdvice): void => {
    if (rate.count === 0) throw none(what, advice);
    const allowance = peek(key, rate);
    if (allowance.remaining === 0) throw exhausted(what, rate, allowance, advice);
  };

  return {
    take(key, rate, advice) {
      check(key, rate, advice);
      add(key, rate);
      return peek(key, rate);
    },
    check,
    note: add,
    giveBack(key, rate) {
      const groups = counting(key, rate);
      const [oldest] = groups;
      if (!oldest) return;
      // The others count longer: never are more admitted than the rate allows.
      oldest.count -= 1;
      if (oldest.count === 0) groups.shift();
    },
    peek,
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
    'ratelimit-reset': String(Math.ceil(resetSeconds)),
  };
}

function exhausted(what: string, rate: Rate, allowance: Allowance, advice: string): Fault {
  const waitSeconds = allowance.resetSeconds;
  return new Fault(
    'too-many-requests',
    `The limit of ${rate.count} ${what} per ${duration(rate.seconds)} is reached: try again in ${Math.ceil(waitSeconds)} s, or ${advice}`,
    { phase: 'limit', retryAfterSeconds: waitSeconds, headers: limitHeaders(allowance) },
  );
}

/** The fault of a rate of 0: waiting does not help. */
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
