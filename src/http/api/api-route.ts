import type { IncomingMessage } from 'node:http';
import type { ParameterizedContext } from 'koa';
import type { z } from 'zod';
import type { Claim } from '../../platform/index.ts';
import type { Caller } from '../../request/index.ts';
import { readRequest } from '../bodies/read-request.ts';
import type { RequireAdministrator } from '../callers/basic-auth.ts';
import { callerAddress, networkOf } from '../callers/client-address.ts';
import type { Identify } from '../callers/identify.ts';
import type { Gate } from '../gates/access-gate.ts';
import { type CallerRates, rateFor } from '../limits/caller-rates.ts';
import { limited } from '../limits/limited.ts';
import type { Allowance, Limiter } from '../limits/limiter.ts';
import type { RequestState } from '../request-state.ts';
import { queryOf } from '../request-target.ts';
import type { BodyDeclaration, Declaration, ParamSchemas, ParamsOf } from '../route/declaration.ts';
import { parseParams, parseQuery } from '../route/parse-input.ts';

/**
 * The callers that a route accepts: `anybody`; `caller`: anybody, identified if they send a login; `requests`: callers
 * with the right to make container requests; `administrator`: administrators with the role `site`.
 */
export type ApiAccess = 'anybody' | 'caller' | 'requests' | 'administrator';

interface CallerBy {
  readonly anybody: undefined;
  readonly caller: Caller;
  readonly requests: Caller;
  readonly administrator: undefined;
}

/** Services that every route of the JSON API uses. */
export interface ApiBasis {
  readonly gate: Gate;
  readonly identify: Identify;
  readonly requireAdministrator: RequireAdministrator;
  readonly maxBodyBytes: number;
  readonly trustedProxies: number;
  /** One limiter for all routes that contact registries on behalf of the caller. */
  readonly limiter: Limiter;
  readonly rates: CallerRates;
}

type Context = ParameterizedContext<RequestState>;

/** The input of a call. */
export interface Input<Path extends string, P extends ParamSchemas, Q, B> {
  readonly params: ParamsOf<Path, P>;
  readonly query: Q;
  readonly body: B;
}

interface ApiBody<B extends z.ZodType> extends BodyDeclaration<B> {
  /** Returns warnings about the body as received. Throws a `Fault` for fields that cannot be ignored. */
  readonly review?: (given: unknown) => readonly string[];
  /** Returns true for a body that also requires the right to build images. */
  readonly isBuild?: (body: z.output<B>) => boolean;
}

interface Definition<
  Path extends string,
  A extends ApiAccess,
  P extends ParamSchemas,
  Q extends z.ZodObject,
  B extends z.ZodType,
  D,
> extends Declaration<Path, P, Q, B> {
  readonly access: A;
  readonly body?: ApiBody<B>;
  /** Returns the login in the input. Default: the login in the `Authorization` header. */
  readonly claim?: (input: Input<Path, P, z.output<Q>, z.output<B>>) => Claim;
  /**
   * Returns the body of the response. Objects and booleans are sent as JSON, texts and streams with the declared media
   * type.
   */
  run(
    call: Input<Path, P, z.output<Q>, z.output<B>> & {
      readonly ctx: Context;
      readonly caller: CallerBy[A];
      /** Warnings about an accepted body. */
      readonly warnings: readonly string[];
      /** Calls that the rate limit still allows the caller; undefined without a limit. */
      readonly left: Allowance | undefined;
    },
    deps: D,
  ): unknown;
}

export interface ApiRoute<D> extends Declaration {
  /** Answers a call. Throws a `Fault` for every failure. */
  respond(ctx: Context, params: Readonly<Record<string, string>>, deps: D): Promise<void>;
}

/** Creates a route of the JSON API. */
export function apiRoute<
  const Path extends string,
  A extends ApiAccess,
  D,
  // biome-ignore lint/complexity/noBannedTypes: a path without typed parameters
  P extends ParamSchemas = {},
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
  B extends z.ZodType = z.ZodUndefined,
>(definition: Definition<Path, A, P, Q, B, D>): ApiRoute<D & ApiBasis> {
  const { run, claim = () => ({}), ...declaration } = definition;
  const { access, body: bodyOf, limit, responses } = definition;
  return {
    ...declaration,

    async respond(ctx, rawParams, deps) {
      if (access === 'requests') deps.gate.beforeRequest();
      if (access === 'administrator') await deps.requireAdministrator(ctx.req, 'site');
      const read = bodyOf && (await readRequest(ctx, bodyOf.schema, deps.maxBodyBytes));
      const input = {
        params: parseParams(declaration, rawParams) as ParamsOf<Path, P>,
        query: parseQuery(declaration, firstOfEach(queryOf(ctx.req))) as z.output<Q>,
        body: read?.value as z.output<B>,
      };
      const warnings = bodyOf?.review?.(read?.body) ?? [];
      const isKnown = access === 'requests' || access === 'caller';
      const caller = isKnown ? await callerOf(ctx.req, claim(input), deps) : undefined;
      if (caller && access === 'requests') deps.gate.request(caller);
      if (caller && bodyOf?.isBuild?.(input.body)) deps.gate.build(caller);
      const rate = caller && limit ? rateFor(deps.rates, caller, caller.address) : undefined;
      const setHeaders = (headers: Record<string, string>) => ctx.set(headers);
      const { types } = responses[200] ?? {};
      if (types?.[0]) ctx.type = types[0];
      const body = await limited(deps.limiter, rate, setHeaders, async left =>
        run({ ...input, ctx, caller: caller as CallerBy[A], warnings, left }, deps),
      );
      if (typeof body !== 'boolean') {
        ctx.body = body;
        return;
      }
      ctx.type = 'application/json';
      ctx.body = JSON.stringify(body);
    },
  };
}

/**
 * Identifies the caller of a request. Throws a `Fault`: 401 for a wrong login, 429 after too many of them.
 */
export async function callerOf(
  request: IncomingMessage,
  claim: Claim,
  { identify, trustedProxies }: Pick<ApiBasis, 'identify' | 'trustedProxies'>,
): Promise<Caller> {
  const address = callerAddress(request, trustedProxies);
  const identity = await identify(request, claim);
  return identity ? { address, ...identity } : { address, network: networkOf(address) };
}

function firstOfEach(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...query].reverse());
}
