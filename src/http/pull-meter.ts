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
  /** Lets a manifest request pass, or throws a fault (429); returns the headers that tell what is left. */
  admit(client: string, request: ContainerRequest): Record<string, string>;
  /** Counts the pull that a manifest request is part of, once. */
  count(client: string, request: ContainerRequest): void;
}

export interface PullMeterDeps {
  readonly counter: PullCounter;
  readonly limiter: Limiter;
  readonly rates: CallerRates;
  readonly usage: UsageStore;
}

/** Limits and counts whole pulls: never blobs, and never twice what belongs to one pull. */
export function createPullMeter({ counter, limiter, rates, usage }: PullMeterDeps): PullMeter {
  return {
    admit(client, request) {
      const { caller } = request;
      const rate = caller.hasAccessToken ? rates.authenticated : rates.anonymous;
      if (!rate) return {};
      const key = `${caller.hasAccessToken ? 'token' : 'anonymous'} ${client}`;
      // The first request of a pull takes one; what else belongs to it passes even at the limit.
      if (counter.isRunning(client, request.token)) return {};
      return limitHeaders(limiter.check(key, rate));
    },

    count(client, request) {
      if (!counter.begins(client, request.token)) return;
      const { caller } = request;
      const rate = caller.hasAccessToken ? rates.authenticated : rates.anonymous;
      if (rate) limiter.take(`${caller.hasAccessToken ? 'token' : 'anonymous'} ${client}`, rate);
      const day = new Date().toISOString().slice(0, 10);
      usage.add('pulls', day, caller.org);
      if (request.isMounted) usage.add('mounted', day, caller.org);
    },
  };
}
