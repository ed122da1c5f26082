import { z } from 'zod';
import type { GrantContexts } from '../../../request/index.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import { inspectRequestSchema } from './container-schema.ts';

/** Body of `POST /v1alpha1/contexts`: the login, as in the container request that names the context. */
const contextGrantRequestSchema = inspectRequestSchema
  .omit({ containerImage: true })
  .meta({ title: 'ContextGrantRequest' });

/** Where the caller may push build contexts. */
const contextGrantSchema = z
  .object({
    registry: z.string().describe("Host of the server's hosted repositories"),
    repository: z
      .string()
      .describe(
        'Repository for the build contexts of the caller. Push an artifact there, and name it in `buildContext.location`: `oci://REGISTRY/REPOSITORY@DIGEST`',
      ),
    token: z.string().describe('Bearer token for pulls from this repository and pushes into it'),
    expiresInSeconds: z.number().int().describe('Lifetime of the token'),
  })
  .meta({ title: 'ContextGrant' });

export interface ContextDeps {
  readonly grantContexts: GrantContexts;
}

/** Routes that grant the right to upload build contexts. Clients push them with the OCI distribution API. */
export const contextRoutes = [
  apiRoute({
    id: 'grantContextUpload',
    method: 'post',
    path: '/v1alpha1/contexts',
    tag: 'Builds',
    summary: 'The right to upload build contexts, by the OCI distribution API',
    access: 'requests',
    limit: 'requests',
    body: { schema: contextGrantRequestSchema, example: {}, isBuild: () => true },
    responses: ok(contextGrantSchema, 'The repository of the caller, and a token for it'),
    faults: ['storage-full'],
    claim: ({ body }) => body,
    async run({ caller, ctx }, { grantContexts }: ContextDeps) {
      ctx.set('cache-control', 'no-store');
      return grantContexts(caller);
    },
  }),
];
