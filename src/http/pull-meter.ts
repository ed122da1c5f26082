import type { PullCounter } from '../pull/pull-counter.ts';
import type { ContainerRequest } from '../request/container-request.ts';
import type { UsageStore } from '../store/usage.ts';
import { type Limiter, limitHeaders, type Rate } from './limiter.ts';

/** Rates for callers without and with an access token. */
export interface CallerRates {
  readonly anonymous: Rate | undefined;
  readonly authenticated: Rate | undefined;
}

export interface PullMeter {
  /** Lets a manifest request pass, or throws a fault (429). */
  admit(client: string, request: ContainerRequest): void;
  /** Counts the pull that a manifest request is part of, once; throws like {@link admit} when others were faster. */
  count(client: string, request: ContainerRequest): void;
  /** The headers that tell what is left. */
  headers(client: string, request: ContainerRequest): Record<string, string>;
}

export interface PullMeterDeps {
  readonly counter: PullCounter;
  readonly limiter: Limiter;
  readonly rates: CallerRates;
  readonly usage: UsageStore;
}

/** Limits and counts whole pulls: never blobs, and never twice what belongs to one pull. */
export function createPullMeter({ counter, limiter, rates, usage }: PullMeterDeps): PullMeter {
  const rateOf = ({ caller }: ContainerRequest) =>
    caller.hasAccessToken ? rates.authenticated : rates.anonymous;
  const keyOf = (client: string, { caller }: ContainerRequest) =>
    `${caller.hasAccessToken ? 'token' : 'anonymous'} ${client}`;

  return {
    admit(client, request) {
      // The first request of a pull takes one; what else belongs to it passes even at the limit.
      if (counter.isRunning(client, request.token)) return;
      const rate = rateOf(request);
      if (rate) limiter.check(keyOf(client, request), rate);
    },

    count(client, request) {
      if (counter.isRunning(client, request.token)) return;
      const rate = rateOf(request);
      // Taken before the pull counts as begun: one that is refused here must not pass the next time.
      if (rate) limiter.take(keyOf(client, request), rate);
      counter.begin(client, request.token);
      const { caller } = request;
      const day = new Date().toISOString().slice(0, 10);
      usage.add('pulls', day, caller.org);
      if (request.isMounted) usage.add('mounted', day, caller.org);
    },

    headers(client, request) {
      const rate = rateOf(request);
      return rate ? limitHeaders(limiter.peek(keyOf(client, request), rate)) : {};
    },
  };
}
