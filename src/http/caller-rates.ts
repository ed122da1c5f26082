import type { Caller } from '../request/container-request.ts';
import { networkOf } from './caller.ts';
import type { Rate } from './limiter.ts';

/** Rates for callers without and with an access token. */
export interface CallerRates {
  readonly anonymous: Rate | undefined;
  readonly authenticated: Rate | undefined;
}

/** The rate that holds for a caller, and the key it is counted under; undefined when none holds. */
export function rateFor(
  rates: CallerRates,
  { user }: Pick<Caller, 'user'>,
  address: string,
): { readonly key: string; readonly rate: Rate } | undefined {
  const rate = user === undefined ? rates.anonymous : rates.authenticated;
  return (
    rate && { key: user === undefined ? `anonymous ${networkOf(address)}` : `user ${user}`, rate }
  );
}
