import type { GrantContexts } from '../../../request/index.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import { contextGrantRequestSchema, contextGrantSchema } from './context-schema.ts';

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
