import { boundedCache } from '../foundation/bounded-cache.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import type { ContainerRequest } from '../request/index.ts';

const mostKept = 50_000;

/** What a check of a right has returned. */
export interface Kept<T> {
  readonly found: T;
  /** From this time on the right is checked early, so that nobody waits for the check. */
  readonly renewAt: number;
}

/**
 * Returns a check of rights whose result is kept until it ends (in ms of `performance.now`). Requests for one token share a
 * check. Throws what the check throws.
 *
 * @param check receives the last result too, whose time may be over
 * @param kept results by token. Default: the last 50,000
 */
export function createKeptRights<T extends { readonly until: number }>(
  check: (request: ContainerRequest, last: T | undefined) => Promise<T>,
  kept = boundedCache<string, Kept<T>>(mostKept),
): (request: ContainerRequest) => Promise<T> {
  // One caller may have waited for a build for as long as it may, and another one may wait longer.
  const checks = new SingleFlight<T>({ sharesFailure: false });

  const renew = (request: ContainerRequest, last: T | undefined): Promise<T> => {
    const work = async () => {
      const found = await check(request, last);
      const now = performance.now();
      kept.set(request.token, { found, renewAt: now + (found.until - now) / 2 });
      return found;
    };
    return checks.run(work, { key: request.token });
  };

  return async request => {
    const { found, renewAt = 0 } = kept.get(request.token) ?? {};
    const now = performance.now();
    if (!found || now >= found.until) {
      const got = await renew(request, found);
      // A wait for a build may have been longer than the right.
      return performance.now() < got.until ? got : renew(request, got);
    }
    // The next request checks again, and gets the error.
    if (now >= renewAt) void renew(request, found).catch(() => kept.delete(request.token));
    return found;
  };
}
