import { createLimiter, type Rate } from '../limits/limiter.ts';

/** Limits the calls with each access token. */
export interface CallLimits {
  /** Counts a call. Throws a {@link Fault} (429) after too many calls. */
  take(tokenId: number): void;
}

/** Source: platform specification, section 8. */
export const callRates: readonly Rate[] = [
  { count: 72_000, seconds: 3600 },
  { count: 20, seconds: 1 },
];

export function createCallLimits(rates = callRates, now?: () => number): CallLimits {
  const advice = 'leave more time between calls';
  const limits = rates.map(rate => ({
    rate,
    limiter: createLimiter('calls with one access token', now, advice),
  }));
  return {
    take(tokenId) {
      const key = String(tokenId);
      // A call that one limit refuses does not count for the others.
      for (const { limiter, rate } of limits) limiter.check(key, rate);
      for (const { limiter, rate } of limits) limiter.take(key, rate);
    },
  };
}
