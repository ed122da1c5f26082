import { z } from 'zod';
import { parsePlatform } from '../../oci/platform.ts';
import type { Identities } from '../../platform/identities.ts';
import type { Inspect } from '../../request/inspect/inspect.ts';
import { ok } from '../route/declaration.ts';
import { apiRoute } from './api-route.ts';
import { inspectAnswerSchema } from './container/answer-schema.ts';
import { inspectRequestSchema } from './container/container-schema.ts';

export interface InspectDeps {
  readonly inspect: Inspect;
  readonly credentialsOf: Identities['credentialsOf'];
}

const usualPlatform = 'linux/amd64';

const inspectQuery = z.object({
  platform: z
    .string()
    .optional()
    .describe(
      `\`linux/arm64\` and the like, or \`all\` for the whole index. Default: ${usualPlatform}`,
    ),
});

/** Routes of image metadata. Source: container service specification, sections 2.7 and 2.8. */
export const inspectRoutes = [
  apiRoute({
    id: 'inspectImage',
    method: 'post',
    path: '/v1alpha1/inspect',
    tag: 'Images',
    summary: 'Metadata of an image',
    access: 'requests',
    limit: 'requests',
    query: inspectQuery,
    body: {
      schema: inspectRequestSchema,
      example: { containerImage: 'docker.io/library/alpine:3.20' },
    },
    answers: ok(inspectAnswerSchema, 'Manifest and config of the image, or its index'),
    faults: ['not-found', 'upstream', 'upstream-timeout', 'unavailable'],
    claim: ({ body: { containerImage: _, ...claim } }) => claim,
    run({ body, caller, query }, { inspect, credentialsOf }: InspectDeps) {
      // Clients send the parameter without a value if their user names no platform.
      const text = query.platform?.trim() || usualPlatform;
      const platform = text === 'all' ? 'all' : parsePlatform(text);
      return inspect(body.containerImage, platform, credentialsOf(caller.grant));
    },
  }),
];
