import { Fault } from '../foundation/fault.ts';
import { type Permit, Semaphore } from '../foundation/semaphore.ts';

/** How much of something that all builds share, such as the places in their queue, some callers may use. */
export interface Shares {
  readonly inAll: number;
  /** Of one user, or of one network without a login. */
  readonly ofOne: number;
  /** Of all callers without a login together. The rest is kept for users. */
  readonly ofAnonymous: number;
}

/** The caller that uses a share. */
export interface Sharer {
  /** The user, or the network of a caller without a login. */
  readonly owner: string;
  /** True for a user: a caller with a login. */
  readonly isTrusted: boolean;
}

/** A limited number of permits to run a build. */
export interface Permits {
  /** Rejects with the signal's reason when it is aborted while waiting. */
  take(sharer: Sharer, signal: AbortSignal): Promise<Permit>;
}

// Where users always wait, they get so many times the builds and the time of anonymous callers.
const usersPerAnonymousCaller = 8;

/**
 * Creates permits. A free permit goes to a waiting user, or to an anonymous caller where no user waits. Anonymous
 * callers together hold at most their share. An owner with fifty builds does not delay an owner with one.
 *
 * @param now the time in ms, by a clock that nobody sets
 */
export function createPermits({ inAll, ofOne, ofAnonymous }: Shares, now?: () => number): Permits {
  const low = { limit: ofAnonymous, passedBy: usersPerAnonymousCaller };
  const semaphore = new Semaphore({ limit: inAll, perKey: ofOne, low, now });
  return {
    take: ({ owner, isTrusted }, signal) =>
      semaphore.take({ key: owner, isLow: !isTrusted, signal }),
  };
}

/**
 * Checks that one more build of a caller has room among those that run and wait. Throws a `Fault` (429, 503) if it has
 * none.
 *
 * @param present the callers of these builds, once for each build
 */
export function requireRoom(shares: Shares, present: readonly Sharer[], caller: Sharer): void {
  if (present.length >= shares.inAll) throw queueFull(shares.inAll);
  const own = present.filter(one => one.owner === caller.owner).length;
  if (own >= shares.ofOne) throw ownQueueFull(shares.ofOne);
  if (caller.isTrusted) return;
  const anonymous = present.filter(one => !one.isTrusted).length;
  if (anonymous >= shares.ofAnonymous) throw anonymousQueueFull(shares.ofAnonymous);
}

/** Too many builds of all callers run or wait. */
function queueFull(most: number): Fault {
  return new Fault(
    'unavailable',
    `${most} builds run or wait already, which is the limit (builds.maxWaiting): try again later`,
    { phase: 'limit', limit: 'builds that run or wait', retryAfterSeconds: 60 },
  );
}

/** Too many builds of callers without a login run or wait. */
function anonymousQueueFull(most: number): Fault {
  return new Fault(
    'unavailable',
    `${most} builds of callers without a login run or wait already, which is the limit (builds.maxWaitingAnonymous): send the request with an access token, or try again later`,
    {
      phase: 'limit',
      limit: 'builds without a login that run or wait',
      retryAfterSeconds: 60,
    },
  );
}

/** Too many builds of this caller run or wait. */
function ownQueueFull(most: number): Fault {
  return new Fault(
    'too-many-requests',
    `You have ${most} builds that run or wait already, which is the limit (builds.maxWaitingPerCaller): try again when some have finished`,
    { phase: 'limit', limit: 'builds of one caller that run or wait', retryAfterSeconds: 60 },
  );
}

/** The build has reached its time limit. */
export class BuildTooLong extends Fault {
  constructor(message: string) {
    super('unavailable', message, { phase: 'build' });
  }
}

/** The time limits of builds (ms). */
export interface TimeLimits {
  readonly usual: number;
  /** The limit for trusted callers. */
  readonly trusted: number;
}

/** Aborts a build at its time limit, with a {@link Fault} as the reason. Disposing of it turns off the limit. */
export function startTimeLimit(
  stop: AbortController,
  limits: TimeLimits,
  isTrusted: boolean,
): Disposable {
  const [ms, setting] = isTrusted
    ? [limits.trusted, 'builds.trustedTimeLimit']
    : [limits.usual, 'builds.timeLimit'];
  const message = `The build took longer than the ${spelledTime(ms)} allowed: make it smaller, or ask the operator to raise ${setting}`;
  const timer = setTimeout(() => stop.abort(new BuildTooLong(message)), ms);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}

function spelledTime(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? `${seconds} seconds` : `${Math.round(seconds / 6) / 10} minutes`;
}

/** Somebody who may do so has cancelled the build. */
export class BuildCancelled extends Fault {
  constructor() {
    super('unavailable', 'The build was cancelled', { phase: 'build' });
  }
}

/** The server is stopping. */
export function stopping(): Fault {
  return new Fault('unavailable', 'The server is stopping: try again in a moment', {
    phase: 'request',
    retryAfterSeconds: 5,
  });
}

/** The secrets of a build were lost with the process that had them in memory. */
export function lostSecrets(): Fault {
  return new Fault(
    'unavailable',
    'The server was restarted and has lost the secrets and SSH keys of this build: request the build again and send them again',
    { phase: 'build' },
  );
}
