import type { IncomingMessage } from 'node:http';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import type { Caller } from '../../request/index.ts';
import { callerAddress, networkOf } from '../client-address.ts';

/** A number of events per number of seconds; a count of 0 allows none. */
export interface Rate {
  readonly count: number;
  readonly seconds: number;
}

/** The events that a caller has left. */
export interface Allowance {
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until all events are available again. With none left: until the next one is. */
  readonly resetSeconds: number;
}

export interface Limiter {
  /**
   * Takes one event. Throws a {@link Fault}: 429 when none is left, 403 when the rate allows none. `advice` says
   * what this caller can do.
   */
  take(key: string, rate: Rate, advice?: string): Allowance;
  /** Throws like {@link take} when none is left, but takes nothing. */
  check(key: string, rate: Rate, advice?: string): void;
  /** Counts an event, even when none is left. */
  note(key: string, rate: Rate): void;
  /** Returns an event to the caller, for work that failed through no fault of the caller. */
  giveBack(key: string, rate: Rate): void;
  /** Returns the events that are left. */
  peek(key: string, rate: Rate): Allowance;
}

const maxKeys = 50_000;
// A key with more events keeps them in groups. A group counts until its last event expires, so the limiter never
// counts too few. There are many keys, so one key takes at most 3 KiB.
const exactEvents = 32;

/** Events that expire together. */
interface Group {
  /** When the first and the last of them happened (ms). */
  readonly since: number;
  until: number;
  count: number;
}

/**
 * Admits at most the count of a rate within any span of its time: a sliding window, without edges and timers.
 * An event is free again when its time has passed. With more than 32 in a window: up to 1/32 of the time later.
 *
 * @param what names the limited events in messages, such as `pulls`
 * @param now returns the time (ms) of a monotonic clock
 * @param usualAdvice what the caller can do other than wait, for the message
 */
export function createLimiter(
  what: string,
  now: () => number = () => performance.now(),
  usualAdvice = 'ask the operator of this server to raise the limit',
): Limiter {
  const events = boundedCache<string, Group[]>(maxKeys);

  /** Returns the groups that still count, oldest first. */
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
    // With events left, the reset is when the last group expires. With none left, it is when the next event is free.
    let last = groups.at(-1);
    for (let [at, kept] = [0, used]; kept >= rate.count && at < groups.length; at += 1) {
      last = groups[at];
      kept -= last?.count ?? 0;
    }
    // It may expire between two looks at the clock.
    const resetMs = last ? Math.max(0, last.until + rate.seconds * 1000 - now()) : 0;
    return {
      limit: rate.count,
      remaining: Math.max(0, rate.count - used),
      resetSeconds: rate.count === 0 ? rate.seconds : resetMs / 1000,
    };
  };

  const check = (key: string, rate: Rate, advice = usualAdvice): void => {
    if (rate.count === 0) throw nothingAllowed(what, advice);
    const allowance = peek(key, rate);
    if (allowance.remaining === 0) throw limitReached(what, rate, allowance, advice);
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
      // The other groups count longer, so the limiter never admits more than the rate allows.
      oldest.count -= 1;
      if (oldest.count === 0) groups.shift();
    },
    peek,
  };
}

/** Returns the `RateLimit-*` headers (draft-ietf-httpapi-ratelimit-headers-03, the form in use). */
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

function limitReached(what: string, rate: Rate, allowance: Allowance, advice: string): Fault {
  const waitSeconds = allowance.resetSeconds;
  return new Fault(
    'too-many-requests',
    `The limit of ${rate.count} ${what} per ${durationText(rate.seconds)} is reached: try again in ${Math.ceil(waitSeconds)} s, or ${advice}`,
    {
      phase: 'limit',
      limit: what,
      retryAfterSeconds: waitSeconds,
      headers: limitHeaders(allowance),
    },
  );
}

/** Returns the fault for a rate of 0: waiting does not help. */
function nothingAllowed(what: string, advice: string): Fault {
  return new Fault('denied', `This server allows no ${what} to this caller: ${advice}`, {
    phase: 'limit',
    cause: new Error('a rate of 0 below limits'),
  });
}

function durationText(seconds: number): string {
  const names: Readonly<Record<number, string>> = {
    1: 'second',
    60: 'minute',
    3600: 'hour',
    86400: 'day',
  };
  return names[seconds] ?? `${seconds} s`;
}

/** Rates for callers without and with an access token. */
export interface CallerRates {
  readonly anonymous: Rate | undefined;
  readonly authenticated: Rate | undefined;
}

/** The limit of one caller. */
export interface CallerLimit {
  /** The key under which events are counted. */
  readonly key: string;
  readonly rate: Rate;
  /** How the caller gets a higher limit; undefined if there is no way. */
  readonly advice: string | undefined;
}

const tokenAdvice =
  'send a platform access token with the container request, which raises the limit';

/** Returns the limit of a caller; undefined without a limit. */
export function rateFor(
  rates: CallerRates,
  { user }: Pick<Caller, 'user'>,
  address: string,
): CallerLimit | undefined {
  const { anonymous, authenticated } = rates;
  if (user !== undefined) {
    return authenticated && { key: `user ${user}`, rate: authenticated, advice: undefined };
  }
  if (!anonymous) return undefined;
  const isMore = !authenticated || perSecond(authenticated) > perSecond(anonymous);
  return {
    key: `anonymous ${networkOf(address)}`,
    rate: anonymous,
    advice: isMore ? tokenAdvice : undefined,
  };
}

function perSecond({ count, seconds }: Rate): number {
  return count / seconds;
}

/**
 * Prevents guessing of passwords and tokens: counts the failed logins of each client address, in memory. Successful
 * logins cost nothing.
 */
export interface LoginLimit {
  /**
   * Runs before the server checks a login. Throws a {@link Fault} (429) when too many logins from the address of
   * the request failed lately, so the response does not reveal whether this one is right.
   */
  check(request: IncomingMessage): void;
  /** Counts a login that failed. */
  fail(request: IncomingMessage): void;
  /**
   * Runs the same check for a login that takes time. Until the caller calls the returned function, the login counts
   * as failed for all others from the address. So no more logins run at once than may fail.
   */
  begin(request: IncomingMessage): () => void;
}

/**
 * @param rate undefined for no limit
 * @param trustedProxies see {@link callerAddress}
 */
export function createLoginLimit(rate: Rate | undefined, trustedProxies: number): LoginLimit {
  const advice = 'check the name, password or token that is sent: every wrong one counts';
  const limiter = createLimiter('failed logins from one address', undefined, advice);
  // A client with one IPv6 address has a whole network of them.
  const keyOf = (request: IncomingMessage) => networkOf(callerAddress(request, trustedProxies));
  const running = new Map<string, number>();
  return {
    check(request) {
      if (rate) limiter.check(keyOf(request), rate);
    },
    begin(request) {
      if (!rate) return () => {};
      const key = keyOf(request);
      limiter.check(key, rate);
      const count = running.get(key) ?? 0;
      const { remaining } = limiter.peek(key, rate);
      if (count >= remaining) {
        throw new Fault(
          'too-many-requests',
          `${count} logins from this address are still being checked: wait for their responses before the next login`,
          { phase: 'limit', limit: 'logins at once from one address', retryAfterSeconds: 1 },
        );
      }
      running.set(key, count + 1);
      let isOpen = true;
      return () => {
        if (!isOpen) return;
        isOpen = false;
        const left = (running.get(key) ?? 1) - 1;
        if (left > 0) running.set(key, left);
        else running.delete(key);
      };
    },
    fail(request) {
      // Also beyond the limit: logins that run at once all pass the check, and wait longer afterwards.
      if (rate) limiter.note(keyOf(request), rate);
    },
  };
}

/** Returns true for the fault of a failed login: a name, password or token that is wrong or has expired. */
export function isFailedLogin(error: unknown): boolean {
  return error instanceof Fault && (error.kind === 'denied' || error.kind === 'unauthorized');
}
