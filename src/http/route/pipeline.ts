import type { Middleware, ParameterizedContext } from 'koa';
import type { z } from 'zod';
import { usesAliases } from '../aliases.ts';
import { readJsonBody } from '../bodies/read-body.ts';
import type { Allowance } from '../limits/limiter.ts';
import type { RequestState } from '../request-state.ts';
import { queryOf } from '../request-target.ts';
import type { Declaration, Input, ParamSchemas } from './declaration.ts';
import { parseBody, parseParams, parseQuery } from './parse-input.ts';
import { createRouter, labelOf, wrongMethod } from './router.ts';

/*
 * The way of every request of the JSON API, of the platform API and of the pages:
 *
 *   declaration -> router -> admit: the checks of the kind, the input, the caller, the limit -> run -> send
 *
 * The three kinds of routes differ in what `admit` asks of a caller, and in how `send` writes the value that `run`
 * returns. A failure is a `Fault`, thrown anywhere on the way: `errors/error-responses.ts` shows it.
 */

export type Context = ParameterizedContext<RequestState>;

/** The types of one kind of routes. */
export interface RouteKind {
  /** Members of a declaration that only this kind has. */
  readonly declares: object;
  /** What handlers get besides the input. The keys are the values of `access` in declarations. */
  readonly knows: object;
  readonly request: ReceivedRequest;
  /** What a handler returns. */
  readonly returns: unknown;
  /** Services that all routes of the kind use. */
  readonly deps: object;
}

/** A request whose texts are not checked yet. */
export interface ReceivedRequest {
  /** The decoded texts of the path parameters. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly readBody: () => Promise<unknown>;
}

export interface HttpRequest extends ReceivedRequest {
  readonly ctx: Context;
}

/** A call that may run. */
interface Admitted<K extends RouteKind> {
  readonly input: Input;
  readonly known: K['knows'][keyof K['knows']];
  /** Runs the work if the rate limit of the caller allows it. Default: without a limit. */
  readonly limit?: RunLimited | undefined;
}

export type RunLimited = <T>(work: (left: Allowance | undefined) => Promise<T>) => Promise<T>;

/**
 * Decides whether a caller may use a route. Throws a `Fault` to refuse. `readInput` reads and checks the input: what
 * comes before it refuses a caller whatever the input is.
 */
export type Admit<K extends RouteKind> = (
  route: Declaration & K['declares'],
  request: K['request'],
  deps: K['deps'],
  readInput: () => Promise<Input>,
) => Promise<Admitted<K>>;

export type Route<K extends RouteKind, D = K['deps']> = Declaration &
  K['declares'] & {
    /** Answers a request with what the handler returns. Throws a `Fault` for every failure. */
    answer(request: K['request'], deps: D): Promise<K['returns']>;
  };

/** Returns the function that makes the routes of one kind of their declarations. */
export function routesOf<K extends RouteKind>(admit: Admit<K>) {
  return <
    const Path extends string,
    A extends keyof K['knows'] & string,
    D = K['deps'],
    // biome-ignore lint/complexity/noBannedTypes: a path without typed parameters
    P extends ParamSchemas = {},
    Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
    B extends z.ZodType = z.ZodUndefined,
  >(
    definition: Declaration<Path, P, Q, B> &
      K['declares'] & {
        readonly access: A;
        /** Handles a call that is admitted. Throws a `Fault` for every failure. */
        run(
          call: Input<Path, P, Q, B> &
            K['knows'][A] & {
              /** Calls that the rate limit still allows the caller; undefined without a limit. */
              readonly left: Allowance | undefined;
            },
          deps: D,
        ): K['returns'] | Promise<K['returns']>;
      },
  ): Route<K, D & K['deps']> => {
    const { run, ...declared } = definition;
    const route = declared as unknown as Declaration & K['declares'];
    return {
      ...route,
      async answer(request, deps) {
        const readInput = () => inputOf(route, request);
        const { input, known, limit } = await admit(route, request, deps, readInput);
        const work = async (left: Allowance | undefined) =>
          run({ ...input, ...known, left } as Parameters<typeof run>[0], deps);
        return limit ? limit(work) : work(undefined);
      },
    };
  };
}

/** Reads the input. Throws a `Fault`: 400 for what its schemas refuse, and as `readBody` of the request. */
async function inputOf(route: Declaration, request: ReceivedRequest): Promise<Input> {
  const { body } = route;
  const params = parseParams(route, request.params);
  const query = parseQuery(route, request.query);
  if (!body) return { params, query, body: undefined, warnings: [] };
  const given = await request.readBody();
  const value = parseBody(body.schema, given);
  return { params, query, body: value, warnings: body.review?.(given) ?? [] };
}

/** How one kind of routes answers over HTTP. */
export interface Dialect<K extends RouteKind> {
  /** Returns true for a request that another kind of routes answers. Default: none. */
  passes?(ctx: Context, route: Declaration & K['declares']): boolean;
  send(ctx: Context, value: K['returns']): void | Promise<void>;
}

/** Answers the requests for routes. Throws a `Fault`: 405 for a path without the method, and all that routes throw. */
export function serveRoutes<K extends RouteKind & { readonly request: HttpRequest }, D>(
  routes: readonly Route<K, D>[],
  { passes, send }: Dialect<K>,
  deps: D & { readonly maxBodyBytes: number },
): Middleware<RequestState> {
  const find = createRouter(routes);
  return async (ctx, next) => {
    const found = find(ctx.method, ctx.path);
    if (!found) return next();
    const route = 'route' in found ? found.route : found.other;
    if (passes?.(ctx, route)) return next();
    ctx.state.route = labelOf(route);
    if ('methods' in found) throw wrongMethod(ctx.method, found.methods);
    const request = {
      ctx,
      params: found.params,
      // The first value of each parameter counts.
      query: Object.fromEntries([...queryOf(ctx.req)].reverse()),
      async readBody() {
        const body = await readJsonBody(ctx.req, deps.maxBodyBytes);
        ctx.state.usesAliases = usesAliases(body);
        return body;
      },
    };
    await send(ctx, await found.route.answer(request, deps));
  };
}
