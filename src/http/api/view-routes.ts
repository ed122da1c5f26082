import type { ParameterizedContext } from 'koa';
import { Fault } from '../../foundation/fault.ts';
import { apiRoute } from './api-route.ts';
import { locationSchema } from './container/response-schema.ts';

const responses = {
  200: {
    about: 'The page, for clients that accept HTML',
    types: ['text/html; charset=utf-8'],
  },
  303: {
    about: 'Address of the same details as JSON',
    schema: locationSchema,
    headers: { Location: 'The address' },
  },
};

/**
 * Page addresses of other services, which clients and their users still use. Each redirects to the route that returns
 * the same data as JSON. The number of a build may follow `-` instead of `_`, as in the reference service.
 */
export const viewRoutes = [
  apiRoute({
    id: 'viewBuild',
    method: 'get',
    path: '/view/builds/{buildId}',
    tag: 'Builds',
    summary: 'Redirects to the details of a build',
    access: 'anybody',
    responses,
    faults: ['not-found'],
    run({ ctx, params }) {
      // One recipe can have several builds, so its key has no details of its own.
      if (/^(?:bd-)?[0-9a-f]{32}$/.test(params.buildId)) {
        throw new Fault(
          'not-found',
          `${params.buildId} is an id without the number of the build: add it, such as ${params.buildId}_1`,
          { phase: 'request' },
        );
      }
      return redirect(ctx, `/v1alpha1/builds/${idIn(params.buildId)}`);
    },
  }),
  apiRoute({
    id: 'viewMirror',
    method: 'get',
    path: '/view/mirrors/{mirrorId}',
    tag: 'Mirrors',
    summary: 'Redirects to the page of a copy of an image',
    access: 'anybody',
    responses,
    run({ ctx, params }) {
      return redirect(ctx, `/view/builds/${idIn(params.mirrorId)}`);
    },
  }),
  apiRoute({
    id: 'viewContainer',
    method: 'get',
    path: '/view/containers/{token}',
    tag: 'Containers',
    summary: 'Redirects to the details of a container request',
    access: 'anybody',
    responses,
    run: ({ ctx, params }) =>
      redirect(ctx, `/v1alpha2/container/${encodeURIComponent(params.token)}`),
  }),
];

/** Returns the id of a build, as this server spells it, for an address. */
function idIn(given: string): string {
  return encodeURIComponent(given.replace(/-(\d+)$/, '_$1'));
}

function redirect(ctx: Pick<ParameterizedContext, 'set' | 'status'>, location: string): object {
  ctx.status = 303;
  ctx.set('location', location);
  return { location };
}
