import type { Middleware } from 'koa';
import { sendValue } from '../bodies/send-value.ts';
import type { RequestState } from '../request-state.ts';
import { describeApi, type OpenApi } from '../route/describe-api.ts';
import { type Route, serveRoutes } from '../route/pipeline.ts';
import type { ApiBasis, ApiKind } from './api-route.ts';
import { type BuildListRouteDeps, buildListApiRoutes } from './builds/build-list.ts';
import { type BuildRoutesDeps, buildDocumentRoutes, buildRoutes } from './builds/build-routes.ts';
import { type MirrorRoutesDeps, mirrorRoutes } from './builds/mirror-routes.ts';
import { type ContainerDeps, containerRoutes } from './container/container-routes.ts';
import { type ContextDeps, contextRoutes } from './container/context-routes.ts';
import { type LiveNameDeps, liveNameRoutes } from './container/live-name-routes.ts';
import { type ScanRoutesDeps, scanRoutes } from './container/scan-routes.ts';
import { type InspectDeps, inspectRoutes } from './inspect-routes.ts';
import {
  type FigureDeps,
  figureRoutes,
  type MetricsDeps,
  metricsRoutes,
} from './metrics-routes.ts';
import { type PackageRoutesDeps, packageRoutes } from './package-routes.ts';
import { type RepositoryRoutesDeps, repositoryRoutes } from './repository-list-routes.ts';
import { type ServiceDeps, serviceRoutes, viewRoutes } from './service-routes.ts';
import { type ValidateDeps, validateRoutes } from './validate-credentials.ts';

export type JsonApiDeps = ApiBasis &
  ContainerDeps &
  LiveNameDeps &
  BuildListRouteDeps &
  BuildRoutesDeps &
  PackageRoutesDeps &
  MirrorRoutesDeps &
  ScanRoutesDeps &
  ContextDeps &
  InspectDeps &
  ValidateDeps &
  MetricsDeps &
  FigureDeps &
  RepositoryRoutesDeps &
  ServiceDeps;

export const jsonApiRoutes: readonly Route<ApiKind, JsonApiDeps>[] = [
  ...containerRoutes,
  ...liveNameRoutes,
  ...buildListApiRoutes,
  ...buildRoutes,
  ...buildDocumentRoutes,
  ...packageRoutes,
  ...mirrorRoutes,
  ...scanRoutes,
  ...contextRoutes,
  ...inspectRoutes,
  ...validateRoutes,
  ...metricsRoutes,
  ...figureRoutes,
  ...repositoryRoutes,
  ...serviceRoutes,
  ...viewRoutes,
];

/** Answers the calls of the JSON API. */
export function jsonApi(deps: JsonApiDeps): Middleware<RequestState> {
  return serveRoutes(jsonApiRoutes, { send: sendValue }, deps);
}

const access = {
  anybody: { security: [], faults: [] },
  caller: {
    security: ['nothing', 'token', 'account'],
    faults: ['unauthorized', 'denied', 'too-many-requests'],
  },
  requests: {
    security: ['nothing', 'token', 'account'],
    faults: ['unauthorized', 'denied', 'too-many-requests'],
  },
  administrator: {
    security: ['account'],
    faults: ['unauthorized', 'denied', 'too-many-requests'],
  },
} as const satisfies Record<keyof ApiKind['knows'], object>;

/** Returns a function that returns the OpenAPI document of the JSON API. The first call takes some milliseconds. */
export function jsonApiDocument(version: string): () => OpenApi {
  let document: OpenApi | undefined;
  return () => (document ??= describeJsonApi(version));
}

/** Returns the OpenAPI document of the JSON API. */
export function describeJsonApi(version: string): OpenApi {
  return describeApi({
    title: 'Sluice',
    version,
    description:
      'Container requests, builds and image metadata. Clients pull the returned names through the OCI distribution API at /v2/. Unknown fields and query parameters are ignored; the response to a container request warns of unknown fields. The built-in platform has its own document, /platform/openapi.json.',
    base: '/',
    routes: jsonApiRoutes,
    tags: {
      Containers: 'Container requests',
      Builds: 'Builds and their logs',
      Packages: 'Packages that builds can install',
      Mirrors: 'Copies of images',
      Scans: 'Scans of images for known vulnerabilities',
      Images: 'Image metadata',
      Repositories: 'Repositories that this server hosts',
      Registries: 'Logins at registries',
      Metrics: 'Usage, for administrators',
      Service: 'The server itself',
    },
    access,
    securitySchemes: {
      account: {
        type: 'http',
        scheme: 'basic',
        description: 'Name and password of an account of the server',
      },
      token: {
        type: 'http',
        scheme: 'bearer',
        description: 'Access token of a workflow platform. A token in the body takes precedence',
      },
    },
  });
}
