import { z } from 'zod';
import type { Builds } from '../../../builds/index.ts';
import { type DocumentName, documentForms } from '../../../conda/index.ts';
import { apiRoute } from '../api-route.ts';

interface BuildDocumentsDeps {
  readonly builds: Pick<Builds, 'document'>;
}

const tag = 'Builds';
const params = { buildId: z.string().describe('`buildId` of the answer to the container request') };
const lockForms = ['explicit', 'pixi', 'conda-lock'] as const;
const billForms = ['spdx', 'cyclonedx'] as const;

const typesOf = (names: readonly DocumentName[]) => [
  ...new Set(names.map(name => documentForms[name].mediaType)),
];

/** Routes of the documents about the packages of an image. */
export const buildDocumentRoutes = [
  apiRoute({
    id: 'getBuildLock',
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/lock',
    tag,
    summary: 'Lock file of the packages that were installed',
    description:
      'A request with this lock file gives the same packages. Images that BuildKit made have the explicit lock file only.',
    access: 'anybody',
    params,
    query: z.object({
      format: z
        .enum(lockForms)
        .optional()
        .describe(
          '`explicit` (default), `pixi` for a `pixi.lock`, or `conda-lock` for a `conda-lock.yml`',
        ),
    }),
    responses: { 200: { about: 'The lock file', types: typesOf(lockForms) } },
    faults: ['not-found', 'unavailable'],
    async run(
      { ctx, params: { buildId }, query: { format = 'explicit' } },
      { builds }: BuildDocumentsDeps,
    ) {
      ctx.type = documentForms[format].mediaType;
      return builds.document(buildId, format);
    },
  }),
  apiRoute({
    id: 'getBuildSbom',
    method: 'get',
    path: '/v1alpha1/builds/{buildId}/sbom',
    tag,
    summary: 'Bill of materials of the packages that were installed',
    description:
      'Lists the Conda packages, without the packages of the base image. Images that BuildKit made have none.',
    access: 'anybody',
    params,
    query: z.object({
      format: z
        .enum(billForms)
        .optional()
        .describe('`spdx` (default) for SPDX 2.3, or `cyclonedx` for CycloneDX 1.6'),
    }),
    responses: { 200: { about: 'The bill of materials', types: typesOf(billForms) } },
    faults: ['not-found', 'unavailable'],
    async run(
      { ctx, params: { buildId }, query: { format = 'spdx' } },
      { builds }: BuildDocumentsDeps,
    ) {
      ctx.type = documentForms[format].mediaType;
      return builds.document(buildId, format);
    },
  }),
];
