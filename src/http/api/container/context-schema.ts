import { z } from 'zod';
import { inspectRequestSchema } from './container-schema.ts';

/** Body of `POST /v1alpha1/contexts`: the login, as in the container request that names the context. */
export const contextGrantRequestSchema = inspectRequestSchema
  .omit({ containerImage: true })
  .meta({ title: 'ContextGrantRequest' });

/** Where the caller may push build contexts. */
export const contextGrantSchema = z
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
