import type { Router, RouterContext } from '@koa/router';
import type { Builds, BuildTicket } from '../build/builds.ts';
import type { DiskSpace } from '../content/disk-space.ts';
import { formatReference } from '../oci/reference.ts';
import type { Accept, Accepted, FrozenAnswer, ServedAnswer } from '../request/accept.ts';
import type { Caller, ContainerRequest } from '../request/container-request.ts';
import type { DryRun, Forecast } from '../request/dry-run.ts';
import { type ApiVersion, isToBeMade, type Submission } from '../request/submission.ts';
import type { TokenRegistry } from '../request/token-registry.ts';
import type { UsageStore } from '../store/usage.ts';
import type { Gate } from './access/gate.ts';
import type { NoteDeed } from './audit.ts';
import type { RequireAdministrator } from './basic-auth.ts';
import { callerAddress, networkOf } from './caller.ts';
import { type CallerRates, rateFor } from './caller-rates.ts';
import type { Identify } from './identify.ts';
import { type Limiter, limitHeaders } from './limiter.ts';
import { readRequest } from './read-request.ts';
import { containerRequestSchema } from './schema.ts';
import type { RequestState } from './state.ts';

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
  readonly space: DiskSpace;
}

// About what a request takes in the database.
const rowBytes = 4096;

/** Container requests: made, looked up, ended. Source: container service specification, sections 2.4 and 4. */
export function containerRoutes(router: Router<RequestState>, deps: ContainerDeps): void {
  const create = async (ctx: RouterContext<RequestState>, version: ApiVersion) => {
    deps.gate.beforeRequest();
    const submission = await readRequest(ctx, containerRequestSchema, deps.maxBodyBytes);
    const address = callerAddress(ctx.req, deps.trustedProxies);
    const identity = await deps.identify(ctx.req, submission);
    const caller: Caller = identity
      ? { address, ...identity }
      : { address, network: networkOf(address) };
    deps.gate.request(caller);
    if (isToBeMade(submission)) deps.gate.build(caller);
    const limit = rateFor(deps.rates, caller, caller.address);
    const requests = limit && deps.limiter.take(limit.key, limit.rate, limit.advice);
    if (requests) ctx.set(limitHeaders(requests));
    if (!submission.dryRun) deps.space.take(rowBytes);
    if (submission.dryRun) {
      ctx.body = forecastAnswer(await deps.dryRun(submission, version, caller), submission);
      return;
    }
    const onBuild = () => {
      const builds = rateFor(deps.buildRates, caller, caller.address);
      const left = builds && deps.buildLimiter.take(builds.key, builds.rate, builds.advice);
      // The headers are those of the limit that is reached first.
      if (left && left.remaining < (requests?.remaining ?? Number.POSITIVE_INFINITY)) {
        ctx.set(limitHeaders(left));
      }
      deps.usage.add('builds', new Date().toISOString().slice(0, 10), caller.org);
    };
    const accepted = await deps.accept(submission, version, caller, onBuild);
    ctx.body = answer(accepted, version, submission.freeze);
  };

  router.post('/v1alpha2/container', ctx => create(ctx, 'v1alpha2'));
  router.post('/container-token', ctx => create(ctx, 'v1alpha1'));

  router.get('/container-token/:token', ctx => {
    ctx.body = describe(deps.tokens.describe(ctx.params.token ?? ''));
  });
  router.get('/v1alpha2/container/:token', ctx => {
    ctx.body = describe(deps.tokens.describe(ctx.params.token ?? ''));
  });
  router.get('/v1alpha2/container/:token/status', ctx => {
    ctx.body = status(deps.builds, deps.tokens.get(ctx.params.token ?? ''));
  });
  router.delete('/container-token/:token', async ctx => {
    await deps.requireAdministrator(ctx.req);
    const token = ctx.params.token ?? '';
    await deps.tokens.revoke(token);
    const { label, image } = deps.tokens.describe(token);
    deps.noteDeed(ctx.req, 'request.end', `${label} of ${formatReference(image)}`);
    ctx.status = 200;
    ctx.body = {};
  });
}

/** An image that is there is done at once; one that is built when its build is over. */
function status(builds: Builds, { token, createdAt, buildId, fixed }: ContainerRequest) {
  const build = fixed || buildId === undefined ? undefined : builds.get(buildId);
  const succeeded = build ? build.succeeded : true;
  return {
    id: token,
    status: succeeded === null ? 'BUILDING' : 'DONE',
    ...(succeeded === null ? {} : { succeeded }),
    ...(build?.reason ? { reason: build.reason } : {}),
    creationTime: iso(createdAt),
    // The wall clock may have been set back since.
    duration: Math.max(0, (build?.finishedAt ?? Date.now()) - createdAt) / 1000,
  };
}

function answer(accepted: Accepted, version: ApiVersion, freeze: boolean | undefined) {
  if (accepted.kind === 'frozen') return frozenAnswer(accepted);
  return version === 'v1alpha1' ? legacyAnswer(accepted) : servedAnswer(accepted, freeze);
}

/** What would be done. Source: reference service, `dryRun`: the number of a build that there is not is 0. */
function forecastAnswer(
  { image, digest, platforms, build, isCached, registries }: Forecast,
  { freeze }: Pick<Submission, 'freeze'>,
) {
  return {
    dryRun: true,
    targetImage: image,
    containerImage: image,
    ...(digest === undefined ? {} : { digest }),
    ...(build ? { buildId: `${build.key}_0`, key: build.key } : {}),
    ...(build?.containerFile === undefined ? {} : { containerFile: build.containerFile }),
    ...(platforms.length === 0 ? {} : { platforms }),
    cached: isCached,
    ...(freeze === undefined ? {} : { freeze }),
    succeeded: true,
    registries,
  };
}

function legacyAnswer({ request, warnings }: ServedAnswer) {
  return {
    containerToken: request.token,
    targetImage: request.targetImage,
    expiration: iso(request.expiresAt),
    ...(warnings.length > 0 ? { warnings } : {}),
  };
}

function servedAnswer(served: ServedAnswer, freeze: boolean | undefined) {
  const { request, ticket } = served;
  return {
    ...legacyAnswer(served),
    containerImage: sourceName(request),
    // What the served name stands for, now and as long as it exists.
    ...(request.fixed ? { digest: request.fixed.served.digest } : {}),
    ...(request.buildId === undefined ? {} : { buildId: request.buildId }),
    ...(ticket ? stateOf(ticket) : { succeeded: true }),
    ...(freeze === undefined ? {} : { freeze }),
  };
}

/** The name is for good: there is no token, and nothing that ends. */
function frozenAnswer({ targetImage, warnings, ticket }: FrozenAnswer) {
  return {
    targetImage,
    ...(warnings.length > 0 ? { warnings } : {}),
    containerImage: targetImage,
    ...(ticket.id === undefined ? {} : { buildId: ticket.id }),
    ...stateOf(ticket),
    freeze: true,
  };
}

function stateOf({ isCached, succeeded }: BuildTicket) {
  return { cached: isCached, ...(succeeded === undefined ? {} : { succeeded }) };
}

/** A request as its maker may see it again: without who asked and from where. */
function describe(request: ContainerRequest) {
  const { layers = [], ...config } = request.change;
  return {
    token: request.token,
    expiration: iso(request.expiresAt),
    request: {
      containerImage: sourceName(request),
      containerConfig: { ...config, ...(layers.length > 0 ? { layers } : {}) },
      ...(request.platform === undefined ? {} : { containerPlatform: request.platform }),
      ...(request.fingerprint === undefined ? {} : { fingerprint: request.fingerprint }),
      ...(request.timestamp === undefined ? {} : { timestamp: request.timestamp }),
      creationTime: iso(request.createdAt),
    },
    ...(request.buildId === undefined ? {} : { buildId: request.buildId }),
    source: { image: sourceName(request), digest: request.fixed?.base.digest },
    served: { image: request.targetImage, digest: request.fixed?.served.digest },
  };
}

function sourceName({ image }: ContainerRequest): string {
  return formatReference(image);
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
