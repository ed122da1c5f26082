import type { Router, RouterContext } from '@koa/router';
import type { Builds } from '../../../builds/builds.ts';
import { Fault } from '../../../foundation/fault.ts';
import { formatReference } from '../../../oci/reference.ts';
import type { Accept } from '../../../request/accept.ts';
import type { Caller } from '../../../request/container-request.ts';
import type { DryRun } from '../../../request/dry-run.ts';
import { type ApiVersion, isToBeMade } from '../../../request/submission.ts';
import type { TokenRegistry } from '../../../request/tokens/token-registry.ts';
import type { DiskSpace } from '../../../storage/directory/disk-space.ts';
import type { UsageStore } from '../../../storage/rows/images/usage-rows.ts';
import { readRequest } from '../../bodies/read-request.ts';
import type { NoteDeed } from '../../callers/audit-notes.ts';
import type { RequireAdministrator } from '../../callers/basic-auth.ts';
import { callerAddress, networkOf } from '../../callers/client-address.ts';
import type { Identify } from '../../callers/identify.ts';
import type { Gate } from '../../gates/access-gate.ts';
import { type CallerRates, rateFor } from '../../limits/caller-rates.ts';
import { limited } from '../../limits/limited.ts';
import { type Allowance, type Limiter, limitHeaders } from '../../limits/limiter.ts';
import type { RequestState } from '../../request-state.ts';
import {
  containerAnswer,
  describeRequest,
  forecastAnswer,
  isDryRunId,
} from './container-answer.ts';
import { containerRequestSchema } from './container-schema.ts';
import { containerStatus } from './container-status.ts';
import { createFieldCheck } from './field-check.ts';

export interface ContainerDeps {
  readonly accept: Accept;
  readonly dryRun: DryRun;
  readonly noteDeed: NoteDeed;
  readonly gate: Gate;
  readonly identify: Identify;
  readonly tokens: TokenRegistry;
  readonly requireAdministrator: RequireAdministrator;
  readonly maxBodyBytes: number;
  readonly trustedProxies: number;
  readonly limiter: Limiter;
  readonly rates: CallerRates;
  /** Builds that begin, apart from the requests themselves. */
  readonly buildLimiter: Limiter;
  readonly buildRates: CallerRates;
  readonly usage: UsageStore;
  readonly builds: Builds;
  /** Address of the log of a build. */
  readonly logUrlOf: (buildId: string) => string;
  readonly space: DiskSpace;
}

// About what a request takes in the database.
const rowBytes = 4096;

/** Container requests: made, looked up, ended. Source: container service specification, sections 2.4 and 4. */
export function containerRoutes(router: Router<RequestState>, deps: ContainerDeps): void {
  const checkFields = createFieldCheck(containerRequestSchema);
  const create = async (ctx: RouterContext<RequestState>, version: ApiVersion) => {
    deps.gate.beforeRequest();
    const { value: submission, body } = await readRequest(
      ctx,
      containerRequestSchema,
      deps.maxBodyBytes,
    );
    const warnings = checkFields(body);
    const address = callerAddress(ctx.req, deps.trustedProxies);
    const identity = await deps.identify(ctx.req, submission);
    const caller: Caller = identity
      ? { address, ...identity }
      : { address, network: networkOf(address) };
    deps.gate.request(caller);
    if (isToBeMade(submission)) deps.gate.build(caller);
    const limit = rateFor(deps.rates, caller, caller.address);
    const onBuild = (requests: Allowance | undefined) => {
      const builds = rateFor(deps.buildRates, caller, caller.address);
      const left = builds && deps.buildLimiter.take(builds.key, builds.rate, builds.advice);
      // The headers are those of the limit that is reached first.
      if (left && left.remaining < (requests?.remaining ?? Number.POSITIVE_INFINITY)) {
        ctx.set(limitHeaders(left));
      }
      deps.usage.add('builds', new Date().toISOString().slice(0, 10), caller.org);
      return () => builds && deps.buildLimiter.giveBack(builds.key, builds.rate);
    };
    const gone = new AbortController();
    ctx.res.once('close', () => gone.abort());
    const setHeaders = (headers: Record<string, string>) => ctx.set(headers);
    ctx.body = await limited(deps.limiter, limit, setHeaders, async left => {
      if (submission.dryRun) {
        const forecast = await deps.dryRun(submission, version, caller, gone.signal);
        return forecastAnswer(forecast, submission, warnings);
      }
      deps.space.take(rowBytes);
      const begin = () => onBuild(left);
      const accepted = await deps.accept(submission, version, caller, begin, gone.signal);
      return containerAnswer(accepted, version, submission.freeze, warnings);
    });
  };

  router.post('/v1alpha2/container', ctx => create(ctx, 'v1alpha2'));
  router.post('/container-token', ctx => create(ctx, 'v1alpha1'));

  router.get('/container-token/:token', async ctx => {
    ctx.body = describeRequest(await deps.tokens.describe(ctx.params.token ?? ''));
  });
  router.get('/v1alpha2/container/:token', async ctx => {
    ctx.body = describeRequest(await deps.tokens.describe(ctx.params.token ?? ''));
  });
  router.get('/v1alpha2/container/:token/status', async ctx => {
    const id = ctx.params.token ?? '';
    if (isDryRunId(id)) throw dryRunHasNoStatus();
    ctx.body = await containerStatus(deps.builds, deps.logUrlOf, await deps.tokens.get(id));
  });
  router.delete('/container-token/:token', async ctx => {
    await deps.requireAdministrator(ctx.req);
    const token = ctx.params.token ?? '';
    await deps.tokens.revoke(token);
    const { label, image } = await deps.tokens.describe(token);
    deps.noteDeed(ctx.req, 'request.end', `${label} of ${formatReference(image)}`);
    ctx.status = 200;
    ctx.body = {};
  });
}

function dryRunHasNoStatus(): Fault {
  return new Fault(
    'not-found',
    'This is the id of a dry run, which has no status: its answer reports everything',
    { phase: 'request' },
  );
}
