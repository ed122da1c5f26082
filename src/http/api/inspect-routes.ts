import type { Router } from '@koa/router';
import { parsePlatform } from '../../oci/platform.ts';
import type { Identities } from '../../platform/identities.ts';
import type { Inspect } from '../../request/inspect/inspect.ts';
import { readRequest } from '../bodies/read-request.ts';
import { callerAddress } from '../callers/client-address.ts';
import type { Identify } from '../callers/identify.ts';
import type { Gate } from '../gates/access-gate.ts';
import { type CallerRates, rateFor } from '../limits/caller-rates.ts';
import { limited } from '../limits/limited.ts';
import type { Limiter } from '../limits/limiter.ts';
import type { RequestState } from '../request-state.ts';
import { queryOf } from '../request-target.ts';
import { inspectRequestSchema } from './container/container-schema.ts';

export interface InspectDeps {
  readonly inspect: Inspect;
  readonly gate: Gate;
  readonly identify: Identify;
  readonly credentialsOf: Identities['credentialsOf'];
  readonly maxBodyBytes: number;
  readonly trustedProxies: number;
  /** The same as for container requests: both ask registries in the name of the caller. */
  readonly limiter: Limiter;
  readonly rates: CallerRates;
}

/** Image metadata. Source: container service specification, sections 2.7 and 2.8. */
export function inspectRoutes(router: Router<RequestState>, deps: InspectDeps): void {
  router.post('/v1alpha1/inspect', async ctx => {
    deps.gate.beforeRequest();
    const { value } = await readRequest(ctx, inspectRequestSchema, deps.maxBodyBytes);
    const { containerImage, ...claim } = value;
    const identity = await deps.identify(ctx.req, claim);
    deps.gate.request({ ...identity });
    const limit = rateFor(deps.rates, identity ?? {}, callerAddress(ctx.req, deps.trustedProxies));
    const setHeaders = (headers: Record<string, string>) => ctx.set(headers);
    // Clients send the parameter without a value where their user names no platform.
    const text = queryOf(ctx.req).get('platform')?.trim() || 'linux/amd64';
    ctx.body = await limited(deps.limiter, limit, setHeaders, () =>
      deps.inspect(
        containerImage,
        text === 'all' ? 'all' : parsePlatform(text),
        deps.credentialsOf(identity?.grant),
      ),
    );
  });
}
