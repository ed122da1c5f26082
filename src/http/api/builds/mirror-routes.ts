import { z } from 'zod';
import type { BuildLogs, Builds } from '../../../builds/index.ts';
import type { BuildPlan } from '../../../builds/plan/build-plan.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { BuildRow } from '../../../storage/rows/index.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import { mirrorDetailsSchema } from '../container/response-schema.ts';

export interface MirrorRoutesDeps {
  readonly builds: Pick<Builds, 'get'>;
  readonly logs: Pick<BuildLogs, 'read'>;
}

const tag = 'Mirrors';
const params = { mirrorId: z.string().describe('`mirrorId` of the status of the request') };
const plainText = 'text/plain; charset=utf-8';

export const mirrorRoute = apiRoute({
  id: 'getMirror',
  method: 'get',
  path: '/v1alpha1/mirrors/{mirrorId}',
  tag,
  summary: 'Details of a copy of an image',
  access: 'anybody',
  params,
  responses: ok(mirrorDetailsSchema, 'The copy'),
  faults: ['not-found'],
  run: async ({ params: { mirrorId } }, { builds }: Pick<MirrorRoutesDeps, 'builds'>) =>
    details(mirrorId, await builds.get(mirrorId)),
});

/** Routes of copies of images, which are builds without a recipe. Source: reference service, mirrors. */
export const mirrorRoutes = [
  mirrorRoute,
  apiRoute({
    id: 'getMirrorLogs',
    method: 'get',
    path: '/v1alpha1/mirrors/{mirrorId}/logs',
    tag,
    summary: 'Log of a copy of an image',
    access: 'anybody',
    params,
    responses: { 200: { about: 'The log', types: [plainText] } },
    faults: ['not-found'],
    async run({ params: { mirrorId } }, { builds, logs }: MirrorRoutesDeps) {
      const row = await builds.get(mirrorId);
      details(mirrorId, row);
      return (await logs.read(row.id, { isEnded: row.finishedAt !== null })) ?? '';
    },
  }),
];

function details(mirrorId: string, row: BuildRow) {
  const { mirror, origin, target } = JSON.parse(row.plan) as BuildPlan;
  if (!mirror || origin.kind !== 'image') {
    throw new Fault('not-found', `${mirrorId} is not the id of a copy: see /v1alpha1/builds`, {
      phase: 'request',
    });
  }
  const { id, createdAt, finishedAt, succeeded, digest, reason } = row;
  return {
    mirrorId: id,
    status: finishedAt === null ? 'PENDING' : 'COMPLETED',
    sourceImage: `${origin.repository}@${origin.digest}`,
    targetImage: target,
    creationTime: new Date(createdAt).toISOString(),
    ...(finishedAt === null
      ? {}
      : { duration: (finishedAt - createdAt) / 1000, exitCode: succeeded ? 0 : 1 }),
    ...(succeeded === null ? {} : { succeeded }),
    ...(digest === null ? {} : { digest }),
    ...(reason === null ? {} : { reason }),
  };
}
