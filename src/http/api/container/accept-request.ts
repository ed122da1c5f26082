import type { ParameterizedContext } from 'koa';
import { dayOf } from '../../../foundation/telemetry/counted.ts';
import {
  type Accept,
  type Accepted,
  type ApiVersion,
  type Caller,
  countedArchitecture,
  type Submission,
} from '../../../request/index.ts';
import type { DiskSpace } from '../../../storage/directory/index.ts';
import type { UsageStore } from '../../../storage/rows/index.ts';
import type { NoteBuild } from '../../callers/audit-notes.ts';
import {
  type Allowance,
  type CallerRates,
  type Limiter,
  limitHeaders,
  rateFor,
} from '../../limits/limiter.ts';
import { clientSignal } from '../../request-state.ts';

export interface AcceptRequestDeps {
  readonly accept: Accept;
  /** Limits new builds, separately from requests. */
  readonly buildLimiter: Limiter;
  readonly buildRates: CallerRates;
  readonly usage: UsageStore;
  readonly space: DiskSpace;
  readonly noteBuild: NoteBuild;
}

/** A container request of a caller who may make it. */
export interface RequestCall {
  readonly ctx: Pick<ParameterizedContext, 'req' | 'res' | 'set'>;
  readonly body: Submission;
  readonly caller: Caller;
  readonly warnings: readonly string[];
  /** Requests that the rate limit still allows the caller; undefined without a limit. */
  readonly left: Allowance | undefined;
}

// Approximate size of a request in the database.
const rowBytes = 4096;

/** Accepts a container request, and counts the build that it begins. Throws a `Fault`. */
export async function acceptRequest(
  { ctx, body, caller, left }: Omit<RequestCall, 'warnings'>,
  version: ApiVersion,
  { accept, buildLimiter, buildRates, usage, space, noteBuild }: AcceptRequestDeps,
): Promise<Accepted> {
  const onBuild = () => {
    const limit = rateFor(buildRates, caller, caller.address);
    const builds = limit && buildLimiter.take(limit.key, limit.rate, limit.advice);
    // The headers report the limit that will be reached first.
    if (builds && builds.remaining < (left?.remaining ?? Number.POSITIVE_INFINITY)) {
      ctx.set(limitHeaders(builds));
    }
    const { containerPlatform, containerImage, mirror } = body;
    const arch = countedArchitecture(containerPlatform, containerImage === undefined);
    usage.add(mirror ? 'mirrors' : 'builds', dayOf(Date.now()), caller.org, arch);
    return () => limit && buildLimiter.giveBack(limit.key, limit.rate);
  };
  space.take(rowBytes);
  let begins = false;
  const noteBegin = () => {
    const giveBack = onBuild();
    begins = true;
    return () => {
      begins = false;
      return giveBack();
    };
  };
  try {
    const accepted = await accept(body, version, caller, noteBegin, clientSignal(ctx.res));
    if (begins) noteBuild(ctx.req, accepted.request);
    return accepted;
  } catch (error) {
    if (begins) noteBuild(ctx.req);
    throw error;
  }
}
