import type { ServerResponse } from 'node:http';
import type { Middleware } from 'koa';
import type { RequestState } from '../request-state.ts';
import { wrongMethod } from '../route/router.ts';
import { type HostedDeps, sendCatalog, sendHosted } from './hosted/hosted-routes.ts';
import { sendToken, type TokenRouteDeps } from './login/token-route.ts';
import { sendJson } from './registry-responses.ts';
import { type ServedDeps, sendServed } from './served-routes.ts';

export interface RegistryDeps {
  /** First path segment of served names; all other names are hosted. */
  readonly prefix: string;
  readonly served: ServedDeps;
  readonly hosted: HostedDeps;
  readonly token: TokenRouteDeps;
}

/** Path of the token service. */
export const tokenPath = '/v2/token';

/**
 * Handles everything below `/v2`. Its routes write their responses themselves: headers must be exact to the
 * byte, and a broken transfer must never look complete.
 */
export function registryRoutes(deps: RegistryDeps): Middleware<RequestState> {
  const servedPath = `/v2/${deps.prefix}/`;
  return async (ctx, next) => {
    const { path, method, req, res } = ctx;
    if (!path.startsWith('/v2/') && path !== '/v2') return next();
    ctx.respond = false;
    if (path.startsWith(servedPath))
      return sendServed(deps.served, path.slice(servedPath.length), ctx);
    if (path === tokenPath) {
      allow(method, ['GET', 'POST']);
      return sendToken(deps.token, req, res);
    }
    if (path === '/v2/' || path === '/v2') {
      allow(method, ['GET', 'HEAD']);
      await deps.hosted.auth.ping(req);
      return sendPing(res);
    }
    if (path === '/v2/_catalog') {
      allow(method, ['GET', 'HEAD']);
      return sendCatalog(deps.hosted, req, res);
    }
    return sendHosted(deps.hosted, path.slice('/v2/'.length), req, res);
  };
}

/** 200 means that this is a registry and that it requires no login. */
function sendPing(res: ServerResponse): void {
  sendJson(res, 200, {});
}

function allow(method: string, methods: readonly string[]): void {
  if (!methods.includes(method)) throw wrongMethod(method, methods);
}
