import type { AdministratorRole } from '../../hosted/accounts/index.ts';
import { type ApiBasis, limitOf } from '../../http/api/index.ts';
import type { Check } from '../../http/index.ts';
import { type Context, type HttpRequest, routesOf } from '../../http/route/index.ts';
import type { Caller } from '../../request/index.ts';
import type { Html } from './html.ts';
import type { Page } from './page-layout.ts';

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

/** What a page answers: a page, a piece of one for a script, or the address of another page. */
export type PageResponse = Page | { readonly piece: Html } | { readonly location: string };

/**
 * Finds out who looks at a page. Throws a `Fault` as `callerOf`.
 *
 * @param platformEndpoint address of the platform that issued the token in the request
 */
export type ViewerOf = (ctx: Context, platformEndpoint?: string) => Promise<Viewer>;

export interface PageBasis extends ApiBasis {
  readonly viewerOf: ViewerOf;
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
  const viewer = await deps.viewerOf(ctx);
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
