import { dayOf } from '../../foundation/telemetry/counted.ts';
import type { PullCounter } from '../../pull/index.ts';
import { type ContainerRequest, countedArchitecture } from '../../request/index.ts';
import type { UsageStore } from '../../storage/rows/index.ts';
import {
  type Allowance,
  type CallerRates,
  type Limiter,
  limitHeaders,
  rateFor,
} from '../limits/limiter.ts';

/** Limits and counts pulls of served names. */
export interface PullMeter {
  /** Lets a manifest request pass, or throws a fault (429). Returns true if its pull is already counted. */
  admit(client: string, request: ContainerRequest): boolean;
  /**
   * Counts the pull that a manifest request is part of, once; throws like {@link admit} when others were faster. A replica
   * that does not lead asks the leader.
   */
  count(client: string, request: ContainerRequest): void | Promise<void>;
  /** Checks a manifest request that is not counted. Absent where {@link admit} has done so. */
  check?(client: string, request: ContainerRequest): Promise<void>;
  /** Returns the headers with the remaining allowance. */
  headers(client: string, request: ContainerRequest): Record<string, string>;
}

interface PullMeterDeps {
  readonly counter: PullCounter;
  readonly limiter: Limiter;
  readonly rates: CallerRates;
  readonly usage: UsageStore;
  /** Records the pull of an image. */
  readonly record: (request: ContainerRequest) => void;
}

/** The meter of the server that counts. */
export interface OwnPullMeter extends PullMeter {
  count(client: string, request: ContainerRequest): void;
  /** Returns how long further requests of the pull count as the same one, ms. 0: it is not counted. */
  leftMs(client: string, request: ContainerRequest): number;
  /** Returns what the caller of a pull has left; undefined without a limit. */
  allowance(client: string, request: ContainerRequest): Allowance | undefined;
  /** Counts a pull that has happened, even when the limit is reached. */
  note(client: string, request: ContainerRequest): void;
}

/** Limits and counts whole pulls, each once. Never counts blobs. */
export function createPullMeter({
  counter,
  limiter,
  rates,
  usage,
  record,
}: PullMeterDeps): OwnPullMeter {
  const begin = (client: string, request: ContainerRequest): void => {
    counter.begin(client, request.token);
    const day = dayOf(Date.now());
    const { caller, platform, asked, isBuilt = false, isMounted } = request;
    const arch = countedArchitecture(platform, isBuilt && asked?.containerImage === undefined);
    usage.add('pulls', day, caller.org, arch);
    if (isMounted) usage.add('mounted', day, caller.org, arch);
    record(request);
  };
  const allowance: OwnPullMeter['allowance'] = (client, request) => {
    const limit = rateFor(rates, request.caller, client);
    return limit && limiter.peek(limit.key, limit.rate);
  };
  return {
    allowance,

    admit(client, request) {
      // The first request of a pull takes one event. The others of the pull pass even at the limit.
      if (counter.isRunning(client, request.token)) return true;
      const limit = rateFor(rates, request.caller, client);
      if (limit) limiter.check(limit.key, limit.rate, limit.advice);
      return false;
    },

    count(client, request) {
      if (counter.isRunning(client, request.token)) return;
      const limit = rateFor(rates, request.caller, client);
      // Take before the pull counts as begun: a pull rejected here must not pass the next time.
      if (limit) limiter.take(limit.key, limit.rate, limit.advice);
      begin(client, request);
    },

    leftMs: (client, { token }) => counter.leftMs(client, token),

    note(client, request) {
      if (counter.isRunning(client, request.token)) return;
      const limit = rateFor(rates, request.caller, client);
      if (limit) limiter.note(limit.key, limit.rate);
      begin(client, request);
    },

    headers(client, request) {
      const left = allowance(client, request);
      return left ? limitHeaders(left) : {};
    },
  };
}
