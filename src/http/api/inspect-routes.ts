import { z } from 'zod';
import {
  type ImageWaste,
  layerChanges,
  type StoredNode,
  type WastedPath,
} from '../../images/listing/index.ts';
import { defaultPlatformName, parsePlatform } from '../../oci/naming.ts';
import type { Identities } from '../../platform/index.ts';
import {
  belowAddress,
  type Inspect,
  keyAddress,
  type LayerContents,
  type LayerFiles,
  type LayerFilesDeps,
  type LayerRow,
  layerFiles,
} from '../../request/index.ts';
import { clientSignal } from '../request-state.ts';
import { ok } from '../route/declaration.ts';
import { apiRoute } from './api-route.ts';
import { inspectRequestSchema } from './container/container-schema.ts';
import { inspectResponseSchema } from './container/response-schema.ts';

const bytes = z.number().int();
const path = z
  .string()
  .describe('Without a leading slash. Bytes that are not UTF-8, and percent signs, are `%ff`');

const layerFileSchema = z
  .object({
    path,
    kind: z.enum([
      ...(['file', 'directory', 'symlink', 'link', 'fifo'] as const),
      ...(['character-device', 'block-device', 'whiteout'] as const),
    ]),
    change: z
      .enum(layerChanges)
      .optional()
      .describe(
        'What the layer does to the layers below. `attributes`: only mode, owner or capabilities differ; `again`: the same file is stored again; `kept`: a directory of a layer below. Absent until the layers are compared',
      ),
    bytes: bytes.describe('Of the file, or of all files below the directory'),
    files: z.number().int().optional().describe('Files below the directory'),
    removedFiles: z
      .number()
      .int()
      .optional()
      .describe('Files of the layers below that are removed here'),
    removedBytes: bytes.optional().describe('Their bytes'),
    mode: z.string().optional().describe('Octal, such as `0755`'),
    uid: z.number().int().optional(),
    gid: z.number().int().optional(),
    hasCapabilities: z.literal(true).optional(),
    target: z.string().optional().describe('Target of a link'),
  })
  .meta({ title: 'LayerFile' });

const wasteSchema = z.object({
  bytes: bytes.describe('Unpacked bytes'),
  wastedBytes: bytes.describe(
    'Those that a later layer replaces or removes, or that are there twice',
  ),
  wasted: z.array(z.object({ path, bytes })).describe('The largest of them'),
});

/** Response of `POST /v1alpha1/inspect/files`. */
const filesResponseSchema = z
  .object({
    digest: z.string().describe('Digest of the layer'),
    number: z.number().int().describe('Number of the layer, counted from 1 for the lowest'),
    layers: z.number().int().describe('Number of layers of the image'),
    state: z.enum(['reading', 'complete', 'incomplete']),
    reason: z.string().optional().describe('Why the rest is missing when `incomplete`'),
    progress: z
      .object({
        isWaiting: z.boolean().describe('Other images are being read'),
        layersDone: z.number().int(),
        layer: z.number().int().optional().describe('Number of the layer that is being read'),
        bytes: bytes.describe('Bytes of it that were read'),
      })
      .optional()
      .describe('While `reading`'),
    bytes: bytes.optional().describe('Unpacked bytes of the layer; absent until it has been read'),
    count: z.number().int().optional().describe('Number of matching files'),
    isCut: z.literal(true).optional().describe('A search shows only the first of its files'),
    page: z.number().int().optional(),
    pages: z.number().int().optional(),
    files: z.array(layerFileSchema),
    privileged: z
      .array(path)
      .optional()
      .describe('Programs that run with the rights of their owner or group, or have capabilities'),
    waste: z
      .object({ image: wasteSchema, layer: wasteSchema })
      .optional()
      .describe('Absent until all layers are compared'),
  })
  .meta({ title: 'LayerFiles' });

type FilesResponse = z.infer<typeof filesResponseSchema>;

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
    .describe('A directory of the layer, as `path` in a response has it. Default: the root'),
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

const ofImages = {
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
    ...ofImages,
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
    ...ofImages,
    id: 'inspectLayerFiles',
    path: '/v1alpha1/inspect/files',
    summary: 'Files of a layer of an image, and what they change of the layers below',
    description:
      'The first call for an image reads its layers, which takes a while: `state` is then `reading`, and the response has what is known by now. Call again, or give `wait`.',
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

/** Returns what is known about the files of a layer, as the API has it. */
function filesResponse(known: LayerFiles): FilesResponse {
  const { chosen, at, progress, failure, isCompared, waste, contents } = known;
  const { layers } = chosen.manifest;
  const layerWaste = waste?.layers[at];
  return {
    digest: layers[at]?.digest ?? '',
    number: at + 1,
    layers: layers.length,
    state: progress ? 'reading' : failure === undefined ? 'complete' : 'incomplete',
    ...(failure === undefined ? {} : { reason: failure }),
    ...(progress
      ? {
          progress: {
            ...progress,
            layer: progress.layer === undefined ? undefined : progress.layer + 1,
          },
        }
      : {}),
    ...(contents ? contentsResponse(contents, isCompared) : { files: [] }),
    ...(waste && layerWaste
      ? { waste: { image: wasteResponse(waste), layer: wasteResponse(layerWaste) } }
      : {}),
  };
}

function contentsResponse(contents: LayerContents, isCompared: boolean) {
  const { root, index, rows, count, isCut, page, pages } = contents;
  return {
    bytes: root.bytes,
    count,
    page,
    pages,
    ...(isCut ? { isCut: true as const } : {}),
    files: rows.map(row => fileResponse(row, isCompared)),
    privileged: index.privileged.map(keyAddress),
  };
}

function fileResponse({ node, directory }: LayerRow, isCompared: boolean) {
  const { name, kind, change, bytes, files, goneFiles, goneBytes, link, hasCapabilities } = node;
  return {
    path: belowAddress(directory.address, name),
    kind,
    ...(isCompared ? { change } : {}),
    bytes,
    ...(kind === 'directory' ? { files } : {}),
    ...(goneFiles > 0 ? { removedFiles: goneFiles, removedBytes: goneBytes } : {}),
    ...rightsOf(node),
    ...(hasCapabilities ? { hasCapabilities: true as const } : {}),
    ...(link === '' ? {} : { target: Buffer.from(link, 'latin1').toString() }),
  };
}

/** The layer says nothing about what it removes, or about a directory that it does not contain itself. */
function rightsOf({ change, isImplicit, mode, uid, gid }: StoredNode) {
  if (change === 'removed' || isImplicit) return {};
  return { mode: `0${mode.toString(8).padStart(3, '0')}`, uid, gid };
}

function wasteResponse({ bytes, wasted, top }: Pick<ImageWaste, 'bytes' | 'wasted' | 'top'>) {
  const pathOf = ({ key, bytes }: WastedPath) => ({ path: keyAddress(key), bytes });
  return { bytes, wastedBytes: wasted, wasted: top.map(pathOf) };
}
