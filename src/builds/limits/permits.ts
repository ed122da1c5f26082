import { type Permit, Semaphore } from '../../foundation/semaphore.ts';
import type { Sharer, Shares } from './shares.ts';

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
