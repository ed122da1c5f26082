import { Fault } from '../../foundation/fault.ts';
import type { AdministratorRole } from '../../hosted/accounts/index.ts';
import { type ApiBasis, callerOf, limitOf } from '../../http/api/index.ts';
import { type Check, readBasic } from '../../http/index.ts';
import { type Context, type HttpRequest, routesOf } from '../../http/route/index.ts';
import type { Caller } from '../../request/index.ts';
import type { Asset } from './assets.ts';
import type { Html } from './html.ts';
import type { Page } from './page-layout.ts';
import type { SessionCookie, Sessions } from './sessions.ts';

/** The person who looks at a page. */
export interface Viewer {
  readonly caller: Caller;
  /** How the page addresses them; undefined for a person without a login. */
  readonly name: string | undefined;
  /** True for administrators with the role `site`. */
  readonly isAdministrator: boolean;
  /** What the person administers. */
  readonly roles: readonly AdministratorRole[];
}

/** What a page answers: a page, a piece of one for a script, a file that pages load, or the address of another page. */
export type PageResponse =
  | Page
  | { readonly piece: Html }
  | { readonly asset: Asset }
  | { readonly location: string };

export interface PageBasis extends ApiBasis {
  readonly sessions: Sessions;
  readonly cookie: SessionCookie;
  /** Refuses forms of pages of other origins. */
  readonly refuseForeignForms: Check;
}

interface Viewed {
  readonly ctx: Context;
  readonly viewer: Viewer;
}

/** The routes of pages. */
export interface PageKind {
  readonly declares: {
    /** The role that an administrator must have; `any` for all administrators. Default: `site`. */
    readonly role?: AdministratorRole | 'any';
    /** True for a path of the JSON API, which answers clients that do not prefer HTML. */
    readonly isShared?: true;
  };
  readonly knows: {
    readonly anybody: Viewed;
    /** People with the right to make container requests. */
    readonly requests: Viewed;
    /** Administrators of the server. */
    readonly administrator: Viewed;
    /**
     * Whoever it is: nobody is looked up. People must be able to log in and out also while their login cannot be
     * checked: after wrong logins of others from the same address, or without the remote platform.
     */
    readonly unchecked: { readonly ctx: Context };
  };
  readonly request: HttpRequest;
  /** Nothing if the page has set the body itself. */
  readonly returns: PageResponse | undefined;
  readonly deps: PageBasis;
}

/** Creates the route of a page: its access, gates and limits are those of the JSON API. */
export const pageRoute = routesOf<PageKind>(async (route, { ctx }, deps, readInput) => {
  const { access, role = 'site' } = route;
  deps.refuseForeignForms(ctx);
  if (access === 'unchecked') return { input: await readInput(), known: { ctx } };
  if (access === 'requests') deps.gate.beforeRequest();
  // A session brings the login that all other checks look at.
  const viewer = await viewerOf(ctx, deps);
  // The layout shows the person, also after a failure from here on.
  ctx.state.person = viewer;
  if (access === 'administrator') {
    await deps.requireAdministrator(ctx.req, role === 'any' ? undefined : role);
  }
  const input = await readInput();
  const { caller } = viewer;
  if (access === 'requests') deps.gate.request(caller);
  return { input, known: { ctx, viewer }, limit: limitOf(route, caller, ctx, deps) };
});

export type ViewerDeps = Pick<
  PageBasis,
  'identify' | 'trustedProxies' | 'requireAdministrator' | 'sessions' | 'cookie'
>;

/**
 * Identifies a viewer as the JSON API identifies a caller: a session counts as the login that the browser would send.
 * So every page has the rights, limits and checks of that login at this moment. A session whose login is no longer
 * accepted ends. Throws a `Fault` as `callerOf`.
 */
async function viewerOf(ctx: Context, deps: ViewerDeps): Promise<Viewer> {
  const { sessions, cookie } = deps;
  const value = cookie.read(ctx.req);
  // A program sends its login itself.
  if (value === undefined || ctx.req.headers.authorization !== undefined) {
    return viewerWith(ctx, undefined, deps);
  }
  const login = await sessions.find(value);
  if (login) {
    ctx.req.headers.authorization = login.authorization;
    try {
      return await viewerWith(ctx, login.platformEndpoint, deps);
    } catch (error) {
      if (!(error instanceof Fault) || !['unauthorized', 'denied'].includes(error.kind))
        throw error;
      await sessions.end(value);
      delete ctx.req.headers.authorization;
    }
  }
  ctx.append('set-cookie', cookie.remove());
  return viewerWith(ctx, undefined, deps);
}

/**
 * Identifies a viewer by the login in the head of the request. Throws a `Fault` as `callerOf`.
 *
 * @param platformEndpoint address of the platform that issued the token
 */
export async function viewerWith(
  ctx: Context,
  platformEndpoint: string | undefined,
  deps: ViewerDeps,
): Promise<Viewer> {
  const caller = await callerOf(ctx.req, { platformEndpoint }, deps);
  const account = readBasic(ctx.req.headers.authorization)?.name;
  const roles =
    account === undefined
      ? []
      : await deps.requireAdministrator(ctx.req).catch(error => {
          if (error instanceof Fault && error.kind === 'denied') return [];
          throw error;
        });
  const { user = caller.user } = ctx.state.who ?? {};
  return { caller, name: account ?? user, roles, isAdministrator: roles.includes('site') };
}
