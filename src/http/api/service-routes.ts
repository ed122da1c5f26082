import type { ParameterizedContext } from 'koa';
import type { Registry } from 'prom-client';
import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import type { Version } from '../../foundation/version.ts';
import type { Readiness } from '../../server/upkeep/index.ts';
import { apiLevel } from '../aliases.ts';
import { ok } from '../route/declaration.ts';
import type { OpenApi } from '../route/describe-api.ts';
import { apiRoute } from './api-route.ts';
import {
  documentSchema,
  locationSchema,
  serviceInfoSchema,
  stateSchema,
} from './container/response-schema.ts';

export interface ServiceDeps {
  readonly version: Version;
  /** Version that `/service-info` reports: the version of the service, or the level of its API. */
  readonly reportVersion: 'own' | 'api';
  readonly readiness: Readiness;
  /** Returns true once the server has begun to stop. */
  readonly isStopping: () => boolean;
  readonly metrics: Registry;
  /** Metrics of other hosts, for operators. */
  readonly remoteMetrics: Registry;
  readonly openapi: () => OpenApi;
}

const ofService = { method: 'get', tag: 'Service', access: 'anybody' } as const;

const readyQuery = z.object({
  for: z
    .string()
    .optional()
    .describe(
      '`pulls`: report only whether images can be pulled. A full disk does not prevent pulls. `traffic`: report only whether a balancer should send requests here. The database and the store are not asked, because all replicas of a site have the same',
    ),
});

/** Routes of the service itself. Source: container service specification, section 2.6. */
export const serviceRoutes = [
  apiRoute({
    ...ofService,
    id: 'getServiceInfo',
    path: '/service-info',
    summary: 'Version and commit',
    responses: ok(serviceInfoSchema, 'The version'),
    run(_, { version: { version, commitId }, reportVersion }: ServiceDeps) {
      const reported = reportVersion === 'api' ? `${apiLevel}+sluice.${version}` : version;
      return { serviceInfo: { version: reported, commitId, apiLevel } };
    },
  }),
  apiRoute({
    ...ofService,
    id: 'getLiveness',
    path: '/healthz',
    summary: 'The process is alive',
    responses: ok(stateSchema, 'The process is alive', { status: 'ok' }),
    run: () => ({ status: 'ok' }),
  }),
  apiRoute({
    ...ofService,
    id: 'getHealth',
    path: '/health',
    summary: 'The same, in the form that health checks of Wave expect',
    responses: ok(stateSchema, 'The process is alive', { status: 'UP' }),
    run: () => ({ status: 'UP' }),
  }),
  apiRoute({
    ...ofService,
    id: 'getReadiness',
    path: '/readyz',
    summary: 'The server can serve requests',
    query: readyQuery,
    responses: ok(stateSchema, 'The server can serve them', { status: 'ready' }),
    faults: ['unavailable', 'storage-full'],
    async run({ query, ctx }, { isStopping, readiness }: ServiceDeps) {
      // Other replicas stay ready: they hand on requests until this server ends, and then to the next leader.
      if (isStopping() && !ctx.state.handedOn)
        throw new Fault(
          'unavailable',
          'The server is stopping: use another one, or try again when it has started',
        );
      // Without replicas that are ready, a balancer refuses everything, also what needs no database.
      if (query.for === 'traffic') readiness.forTraffic(ctx.state.handedOn !== undefined);
      // A balancer with only one server can keep pulls working while the disk is full.
      else await (query.for === 'pulls' ? readiness.forReading() : readiness.forAll());
      return { status: 'ready' };
    },
  }),
  apiRoute({
    ...ofService,
    id: 'getMetrics',
    path: '/metrics',
    summary: 'Metrics in the format of Prometheus',
    responses: {
      200: { about: 'The metrics', types: ['text/plain; version=0.0.4; charset=utf-8'] },
    },
    run: (_, { metrics }: ServiceDeps) => metrics.metrics(),
  }),
  apiRoute({
    method: 'get',
    tag: 'Service',
    access: 'administrator',
    id: 'getHostMetrics',
    path: '/metrics/hosts',
    summary:
      'Metrics of the registries, builders and platforms that the server talked to, by host, in the format of Prometheus',
    responses: {
      200: { about: 'The metrics', types: ['text/plain; version=0.0.4; charset=utf-8'] },
    },
    run: (_, { remoteMetrics }: ServiceDeps) => remoteMetrics.metrics(),
  }),
  apiRoute({
    ...ofService,
    id: 'getOpenApi',
    path: '/openapi.json',
    summary: 'This description',
    responses: ok(documentSchema, 'The description'),
    run: (_, { openapi }: ServiceDeps) => openapi(),
  }),
  apiRoute({
    ...ofService,
    id: 'getRobots',
    path: '/robots.txt',
    summary: 'Asks crawlers to stay away',
    responses: { 200: { about: 'The rules for crawlers', types: ['text/plain; charset=utf-8'] } },
    run: () => 'User-agent: *\nDisallow: /\n',
  }),
  apiRoute({
    ...ofService,
    id: 'getFavicon',
    path: '/favicon.ico',
    summary: 'The icon of the pages, for browsers that show JSON',
    responses: {
      204: { about: 'This server has no pages' },
      303: { about: 'The icon', headers: { Location: 'Its address' } },
    },
    run({ ctx }) {
      ctx.set('cache-control', 'public, max-age=86400');
      ctx.status = 204;
      return undefined;
    },
  }),
];

const viewResponses = {
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
    ...ofService,
    id: 'viewOpenApi',
    path: '/openapi/',
    aliases: ['/openapi'],
    summary: 'Redirects to the description of this API',
    responses: { 303: viewResponses[303] },
    run: ({ ctx }) => redirect(ctx, '/openapi.json'),
  }),
  apiRoute({
    id: 'viewBuild',
    method: 'get',
    path: '/view/builds/{buildId}',
    tag: 'Builds',
    summary: 'Redirects to the details of a build',
    access: 'anybody',
    responses: viewResponses,
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
    responses: viewResponses,
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
    responses: viewResponses,
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
