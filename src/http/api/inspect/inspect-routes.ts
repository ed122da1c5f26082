import { z } from 'zod';
import { layerChanges } from '../../../images/listing/index.ts';
import { defaultPlatformName, parsePlatform } from '../../../oci/naming.ts';
import type { Identities } from '../../../platform/index.ts';
import { type Inspect, type LayerFilesDeps, layerFiles } from '../../../request/index.ts';
import { clientSignal } from '../../request-state.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import { inspectRequestSchema } from '../container/container-schema.ts';
import { inspectResponseSchema } from '../container/response-schema.ts';
import { filesResponse, filesResponseSchema } from './files-response.ts';

export interface InspectDeps extends LayerFilesDeps {
  readonly inspect: Inspect;
  readonly credentialsOf: Identities['credentialsOf'];
}

const inspectQuery = z.object({
  platform: z
    .string()
    .optional()
    .describe(
      `\`linux/arm64\` and the like, or \`all\` for the whole index. Default: ${defaultPlatformName}`,
    ),
});

const longestPath = 12_500;
const longestName = 200;
const mostPages = 10_000;
const mostWaitSeconds = 20;

const count = (most: number) => z.coerce.number().int().min(0).max(most);
const filesQuery = z.object({
  platform: z
    .string()
    .max(longestName)
    .optional()
    .describe(`\`linux/arm64\` and the like. Default: ${defaultPlatformName}, or the first one`),
  layer: z
    .string()
    .max(longestName)
    .optional()
    .describe('Its digest, or its number, counted from 1 for the lowest. Default: the highest'),
  path: z
    .string()
    .max(longestPath)
    .optional()
    .describe('A directory of the layer, as `path` in an answer has it. Default: the root'),
  name: z
    .string()
    .max(longestName)
    .optional()
    .describe('A part of the name of files anywhere in the layer'),
  change: z.enum(layerChanges).optional().describe('Files anywhere in the layer with this change'),
  sort: z.enum(['size', 'name']).optional().describe('Default: `size`, the largest first'),
  page: count(mostPages).min(1).optional().describe('Page of the files, counted from 1'),
  wait: count(mostWaitSeconds)
    .optional()
    .describe('How long to wait while layers are being read (s). Default: 0'),
});

const shared = {
  method: 'post',
  tag: 'Images',
  access: 'requests',
  limit: 'requests',
  body: {
    schema: inspectRequestSchema,
    example: { containerImage: 'docker.io/library/alpine:3.20' },
  },
  faults: ['not-found', 'upstream', 'upstream-timeout', 'unavailable'],
  claim: ({ body }: { readonly body: z.output<typeof inspectRequestSchema> }) => body,
} as const;

/** Routes of image metadata. Source: container service specification, sections 2.7 and 2.8. */
export const inspectRoutes = [
  apiRoute({
    ...shared,
    id: 'inspectImage',
    path: '/v1alpha1/inspect',
    summary: 'Metadata of an image',
    query: inspectQuery,
    responses: ok(inspectResponseSchema, 'Manifest and config of the image, or its index'),
    run({ body, caller, query }, { inspect, credentialsOf }: InspectDeps) {
      // Clients send the parameter without a value if their user names no platform.
      const text = query.platform?.trim() || defaultPlatformName;
      const platform = text === 'all' ? 'all' : parsePlatform(text);
      return inspect(body.containerImage, platform, credentialsOf(caller.grant));
    },
  }),
  apiRoute({
    ...shared,
    id: 'inspectLayerFiles',
    path: '/v1alpha1/inspect/files',
    summary: 'Files of a layer of an image, and what they change of the layers below',
    description:
      'The first call for an image reads its layers, which takes a while: `state` is then `reading`, and the answer has what is known by now. Call again, or give `wait`.',
    query: filesQuery,
    responses: ok(filesResponseSchema, 'A page of the files'),
    async run({ ctx, body, caller, query }, { credentialsOf, ...deps }: InspectDeps) {
      const { wait = 0, platform, name, ...asked } = query;
      const layerQuery = {
        ...asked,
        image: body.containerImage,
        platform: platform?.trim() || undefined,
        name: name?.trim() || undefined,
      };
      const { user, network, address, grant } = caller;
      const files = await layerFiles(
        layerQuery,
        {
          credentials: credentialsOf(grant),
          caller: user ?? network ?? address,
          waitMs: wait * 1000,
          signal: clientSignal(ctx.res),
        },
        deps,
      );
      return filesResponse(files);
    },
  }),
];
