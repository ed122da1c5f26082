import { Fault } from '../../foundation/fault.ts';
import { type ApiBasis, callerOf } from '../../http/api/index.ts';
import { readBasic, stateOf } from '../../http/index.ts';
import type { Viewer, ViewerOf } from '../frame/page-route.ts';
import type { SessionCookie } from './session-cookie.ts';
import type { Sessions } from './sessions.ts';

export interface ViewerDeps
  extends Pick<ApiBasis, 'identify' | 'trustedProxies' | 'requireAdministrator'> {
  readonly sessions: Sessions;
  readonly cookie: SessionCookie;
}

/**
 * Identifies a viewer as the JSON API identifies a caller: a session counts as the login that the browser would send.
 * So every page has the rights, limits and checks of that login at this moment. A session whose login is no longer
 * accepted ends.
 */
export function createViewerOf(deps: ViewerDeps): ViewerOf {
  const { sessions, cookie, requireAdministrator } = deps;

  const identified = async (ctx: Parameters<ViewerOf>[0], endpoint?: string): Promise<Viewer> => {
    const caller = await callerOf(ctx.req, { platformEndpoint: endpoint }, deps);
    const account = readBasic(ctx.req.headers.authorization)?.name;
    const roles =
      account === undefined
        ? []
        : await requireAdministrator(ctx.req).catch(error => {
            if (error instanceof Fault && error.kind === 'denied') return [];
            throw error;
          });
    const { user = caller.user } = stateOf(ctx.req).who ?? {};
    return { caller, name: account ?? user, roles, isAdministrator: roles.includes('site') };
  };

  return async (ctx, endpoint) => {
    const value = cookie.read(ctx.req);
    // A program sends its login itself.
    if (value === undefined || ctx.req.headers.authorization !== undefined) {
      return identified(ctx, endpoint);
    }
    const login = await sessions.find(value);
    if (login) {
      ctx.req.headers.authorization = login.authorization;
      try {
        return await identified(ctx, login.platformEndpoint);
      } catch (error) {
        if (!(error instanceof Fault) || !['unauthorized', 'denied'].includes(error.kind))
          throw error;
        await sessions.end(value);
        delete ctx.req.headers.authorization;
      }
    }
    ctx.append('set-cookie', cookie.remove());
    return identified(ctx);
  };
}
