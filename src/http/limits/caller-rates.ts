import type { Caller } from '../../request/index.ts';
import { networkOf } from '../callers/client-address.ts';
import type { Rate } from './limiter.ts';

/** Rates for callers without and with an access token. */
export interface CallerRates {
  readonly anonymous: Rate | undefined;
  readonly authenticated: Rate | undefined;
}

/** The limit of a caller. */
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
