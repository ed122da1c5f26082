import { boundedCache } from '../foundation/bounded-cache.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import type { ContainerRequest } from '../request/index.ts';
import type { LookAtRight } from './pull-right.ts';

const mostKept = 50_000;

interface Kept {
  readonly until: number;
  /** From this time on the right is checked early, so that nobody waits for the check. */
  readonly renewAt: number;
}

/**
 * Returns a check of rights whose result holds until it ends, without the image. Questions about one token share a check. Throws
 * like {@link LookAtRight}.
 */
export function createKeptRights(look: LookAtRight): (request: ContainerRequest) => Promise<void> {
  const kept = boundedCache<string, Kept>(mostKept);
  const checks = new SingleFlight<void>();

  const check = (request: ContainerRequest): Promise<void> => {
    const { token } = request;
    const work = async () => {
      try {
        const { until } = await look(request);
        const now = performance.now();
        kept.set(token, { until, renewAt: now + (until - now) / 2 });
      } catch (error) {
        kept.delete(token);
        throw error;
      }
    };
    return checks.run(work, { key: token });
  };

  return async request => {
    const found = kept.get(request.token);
    const now = performance.now();
    if (!found || now >= found.until) return check(request);
    // The next question checks again, and gets the error.
    if (now >= found.renewAt) void check(request).catch(() => {});
  };
}
