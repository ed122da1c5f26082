import type { Middleware } from 'koa';
import { sendValue } from '../bodies/send-value.ts';
import type { RequestState } from '../request-state.ts';
import { type Route, serveRoutes } from '../route/pipeline.ts';
import type { ApiBasis, ApiKind } from './api-route.ts';
import { buildStatusRoute } from './builds/build-routes.ts';
import { mirrorRoute } from './builds/mirror-routes.ts';
import { type ContainerStatusDeps, containerStatusRoute } from './container/container-routes.ts';
import { scanRoute } from './container/scan-routes.ts';

const routes = [containerStatusRoute, buildStatusRoute, mirrorRoute, scanRoute];

const paths =
  /^\/v1alpha(?:2\/container\/[^/]+\/status|1\/builds\/[^/]+\/status|1\/(?:mirrors|scans)\/[^/]+)\/?$/;

/** Returns true for a path that {@link statusApi} may answer. */
export function isStatusPath(path: string): boolean {
  return paths.test(path);
}

/**
 * Answers the calls that clients repeat until a build, a copy or a scan has ended: what rows say to anybody who knows an id. They
 * need no login and have no limit.
 */
export function statusApi(deps: ContainerStatusDeps): Middleware<RequestState> {
  // Routes for anybody do not use the services that admit callers.
  const withoutCallers = { ...deps, maxBodyBytes: 0 } as ContainerStatusDeps & ApiBasis;
  return serveRoutes(
    routes as readonly Route<ApiKind, ContainerStatusDeps>[],
    { send: sendValue },
    withoutCallers,
  );
}
