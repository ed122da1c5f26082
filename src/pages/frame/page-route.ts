import type { ParameterizedContext } from 'koa';
import type { z } from 'zod';
import type { AdministratorRole } from '../../hosted/accounts/index.ts';
import type { ApiBasis } from '../../http/api/index.ts';
import { limited, queryOf, type RequestState, rateFor } from '../../http/index.ts';
import {
  type ParamSchemas,
  type ParamsOf,
  parseParams,
  parseQuery,
} from '../../http/route/index.ts';
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

/**
 * The people that a page accepts, as the JSON API does: `anybody`; `requests`: those with the right to make container
 * requests; `administrator`: administrators of the server with a role, by default `site`.
 */
export type PageAccess = 'anybody' | 'requests' | 'administrator';

/** What a page answers: a page, a piece of one for a script, or the address of another page. */
export type PageResponse = Page | { readonly piece: Html } | { readonly location: string };

type Context = ParameterizedContext<RequestState>;

interface Definition<Path extends string, P extends ParamSchemas, Q extends z.ZodObject, D> {
  readonly method: 'get' | 'post';
  /** Path with names in braces for its parameters. */
  readonly path: Path;
  readonly access: PageAccess;
  /** The role that an administrator must have; `any` for all administrators. Default: `site`. */
  readonly role?: AdministratorRole | 'any';
  readonly params?: P;
  readonly query?: Q;
  /** The rate limit that each call counts for. */
  readonly limit?: 'requests';
  /** True for a path of the JSON API, which answers clients that do not prefer HTML. */
  readonly isShared?: true;
  /** Throws a `Fault` for every failure. A response of `undefined`: the page has set the body itself. */
  run(
    call: {
      readonly ctx: Context;
      readonly params: ParamsOf<Path, P>;
      readonly query: z.output<Q>;
      readonly viewer: Viewer;
    },
    deps: D,
  ): PageResponse | undefined | Promise<PageResponse | undefined>;
}

/**
 * Finds out who looks at a page. Throws a `Fault` as `callerOf`.
 *
 * @param platformEndpoint address of the platform that issued the token in the request
 */
export type ViewerOf = (ctx: Context, platformEndpoint?: string) => Promise<Viewer>;

export interface PageBasis extends ApiBasis {
  readonly viewerOf: ViewerOf;
}

export interface PageRoute<D> {
  readonly method: 'get' | 'post';
  readonly path: string;
  readonly isShared?: true;
  respond(
    ctx: Context,
    params: Readonly<Record<string, string>>,
    deps: D,
  ): Promise<{ readonly response?: PageResponse | undefined; readonly viewer?: Viewer }>;
}

/** Creates the route of a page. */
export function pageRoute<
  const Path extends string,
  D,
  // biome-ignore lint/complexity/noBannedTypes: a path without typed parameters
  P extends ParamSchemas = {},
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
>(definition: Definition<Path, P, Q, D>): PageRoute<D & PageBasis> {
  const { run, access, role = 'site', limit, method, path, isShared } = definition;
  return {
    method,
    path,
    ...(isShared ? { isShared } : {}),

    async respond(ctx, rawParams, deps) {
      if (access === 'requests') deps.gate.beforeRequest();
      // A session brings the login that all other checks look at.
      const viewer = await deps.viewerOf(ctx);
      // A failure after this shows the same person.
      ctx.state.person = viewer;
      if (access === 'administrator') {
        await deps.requireAdministrator(ctx.req, role === 'any' ? undefined : role);
      }
      const params = parseParams(definition, rawParams) as ParamsOf<Path, P>;
      const query = givenQuery(ctx, definition) as z.output<Q>;
      const { caller } = viewer;
      if (access === 'requests') deps.gate.request(caller);
      const rate = limit ? rateFor(deps.rates, caller, caller.address) : undefined;
      const response = await limited(
        deps.limiter,
        rate,
        headers => ctx.set(headers),
        async () => run({ ctx, params, query, viewer }, deps),
      );
      return { response, viewer };
    },
  };
}

/**
 * Creates the route of a page that does not check who looks at it. People must be able to log in and out also while
 * their login cannot be checked: after wrong logins of others from the same address, or without the remote platform.
 */
export function uncheckedPageRoute<D, Q extends z.ZodObject = z.ZodObject<Record<never, never>>>(
  definition: Pick<Definition<string, ParamSchemas, Q, D>, 'method' | 'path' | 'query'> & {
    run(
      call: { readonly ctx: Context; readonly query: z.output<Q> },
      deps: D,
    ): PageResponse | Promise<PageResponse>;
  },
): PageRoute<D> {
  const { method, path, run } = definition;
  return {
    method,
    path,
    async respond(ctx, _, deps) {
      const query = givenQuery(ctx, definition) as z.output<Q>;
      return { response: await run({ ctx, query }, deps) };
    },
  };
}

/** Returns the query of a request as the schema reads it. Throws a `Fault` (400). */
function givenQuery({ req }: Context, definition: { readonly query?: z.ZodObject }): unknown {
  return parseQuery(definition, Object.fromEntries([...queryOf(req)].reverse()));
}
