import type { Router } from '@koa/router';
import { parsePlatform } from '../oci/platform.ts';
import type { Identities } from '../platform/identities.ts';
import type { Inspect } from '../request/inspect.ts';
import type { Identify } from './identify.ts';
import { readJsonBody } from './json-body.ts';
import { inspectRequestSchema, parseBody } from './schema.ts';
import type { RequestState } from './state.ts';

export interface InspectDeps {
  readonly inspect: Inspect;
  readonly identify: Identify;
  readonly credentialsOf: Identities['credentialsOf'];
  readonly maxBodyBytes: number;
}

/** Image metadata. Source: container service specification, sections 2.7 and 2.8. */
export function inspectRoutes(router: Router<RequestState>, deps: InspectDeps): void {
  router.post('/v1alpha1/inspect', async ctx => {
    const { containerImage, ...claim } = parseBody(
      inspectRequestSchema,
      await readJsonBody(ctx.req, deps.maxBodyBytes),
    );
    const identity = await deps.identify(ctx.req, claim);
    const asked = ctx.query.platform ?? 'linux/amd64';
    const text = Array.isArray(asked) ? (asked[0] ?? '') : asked;
    ctx.body = await deps.inspect(
      containerImage,
      text === 'all' ? 'all' : parsePlatform(text),
      deps.credentialsOf(identity?.grant),
    );
  });
}
