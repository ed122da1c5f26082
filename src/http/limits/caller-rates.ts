import type { Caller } from '../../request/container-request.ts';
import { networkOf } from '../callers/client-address.ts';
import type { Rate } from './limiter.ts';

/** Rates for callers without and with an access token. */
export interface CallerRates {
  readonly anonymous: Rate | undefined;
  readonly authenticated: Rate | undefined;
}

/** What holds for a caller. */
export interface CallerLimit {
  /** What the events are counted under. */
  readonly key: string;
  readonly rate: Rate;
  /** What the caller can do to get more; undefined for nothing. */
  readonly advice: string | undefined;
}

const tokenAdvice =
  'send a platform access token with the container request, which raises the limit';

/** The rate that holds for a caller; undefined when none holds. */
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
