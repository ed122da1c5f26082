import type { Caller } from '../request/container-request.ts';
import type { Rate } from './limiter.ts';

/** Rates for callers without and with an access token. */
export interface CallerRates {
  readonly anonymous: Rate | undefined;
  readonly authenticated: Rate | undefined;
}

/** The rate that holds for a caller, and the key it is counted under; undefined when none holds. */
export function rateFor(
  rates: CallerRates,
  { hasAccessToken }: Pick<Caller, 'hasAccessToken'>,
  address: string,
): { readonly key: string; readonly rate: Rate } | undefined {
  const rate = hasAccessToken ? rates.authenticated : rates.anonymous;
  return rate && { key: `${hasAccessToken ? 'token' : 'anonymous'} ${address}`, rate };
}
