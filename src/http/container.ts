import type { Router, RouterContext } from '@koa/router';
import type { Accounts } from '../hosted/accounts.ts';
import { formatReference } from '../oci/reference.ts';
import type { Accept, Accepted } from '../request/accept.ts';
import type { ContainerRequest } from '../request/container-request.ts';
import type { ApiVersion } from '../request/submission.ts';
import type { TokenRegistry } from '../request/token-registry.ts';
import { requireAdministrator } from './basic-auth.ts';
import { callerAddress } from './caller.ts';
import { type CallerRates, rateFor } from './caller-rates.ts';
import { readJsonBody } from './json-body.ts';
import { type Limiter, limitHeaders } from './limiter.ts';
import { containerRequestSchema, parseBody } from './schema.ts';
import type { RequestState } from './state.ts';

export interface ContainerDeps {
  readonly accept: Accept;
  readonly tokens: TokenRegistry;
  readonly accounts: Accounts;
  readonly maxBodyBytes: number;
  readonly trustedProxies: number;
  readonly limiter: Limiter;
  readonly rates: CallerRates;
}

/** Container requests: made, looked up, ended. Source: container service specification, sections 2.4 and 4. */
export function containerRoutes(router: Router<RequestState>, deps: ContainerDeps): void {
  const create = async (ctx: RouterContext<RequestState>, version: ApiVersion) => {
    const submission = parseBody(
      containerRequestSchema,
      await readJsonBody(ctx.req, deps.maxBodyBytes),
    );
    const caller = {
      address: callerAddress(ctx.req, deps.trustedProxies),
      hasAccessToken: Boolean(submission.platformAccessToken),
    };
    const limit = rateFor(deps.rates, caller, caller.address);
    if (limit) ctx.set(limitHeaders(deps.limiter.take(limit.key, limit.rate)));
    const accepted = await deps.accept(submission, version, caller);
    ctx.body =
      version === 'v1alpha1' ? legacyAnswer(accepted) : answer(accepted, submission.freeze);
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
    const request = deps.tokens.get(ctx.params.token ?? '');
    ctx.body = {
      id: request.token,
      status: 'DONE',
      succeeded: true,
      creationTime: iso(request.createdAt),
      duration: (Date.now() - request.createdAt) / 1000,
    };
  });
  router.delete('/container-token/:token', ctx => {
    requireAdministrator(ctx.get('authorization'), deps.accounts);
    deps.tokens.revoke(ctx.params.token ?? '');
    ctx.status = 200;
    ctx.body = {};
  });
}

function legacyAnswer({ request, warnings }: Accepted) {
  return {
    containerToken: request.token,
    targetImage: request.targetImage,
    expiration: iso(request.expiresAt),
    ...(warnings.length > 0 ? { warnings } : {}),
  };
}

function answer(accepted: Accepted, freeze: boolean | undefined) {
  const { request } = accepted;
  return {
    ...legacyAnswer(accepted),
    containerImage: sourceName(request),
    // What the served name stands for, now and as long as it exists.
    digest: request.served.digest,
    ...(freeze === undefined ? {} : { freeze }),
    succeeded: true,
  };
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
    source: { image: sourceName(request), digest: request.base.digest },
    served: { image: request.targetImage, digest: request.served.digest },
  };
}

function sourceName({ image }: ContainerRequest): string {
  return formatReference(image);
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
