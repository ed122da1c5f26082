import type { IncomingMessage } from 'node:http';
import type { ParameterizedContext } from 'koa';
import type { z } from 'zod';
import type { Claim } from '../../platform/identities.ts';
import type { Caller } from '../../request/container-request.ts';
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
 * Who may call: anybody; callers that are identified where they have a login (`caller`); those that may make
 * container requests (`requests`); administrators of the server.
 */
export type ApiAccess = 'anybody' | 'caller' | 'requests' | 'administrator';

interface CallerBy {
  readonly anybody: undefined;
  readonly caller: Caller;
  readonly requests: Caller;
  readonly administrator: undefined;
}

/** What every route of the JSON API stands on. */
export interface ApiBasis {
  readonly gate: Gate;
  readonly identify: Identify;
  readonly requireAdministrator: RequireAdministrator;
  readonly maxBodyBytes: number;
  readonly trustedProxies: number;
  /** One for all routes that ask registries in the name of the caller. */
  readonly limiter: Limiter;
  readonly rates: CallerRates;
}

type Context = ParameterizedContext<RequestState>;

/** What comes with a call. */
export interface Input<Path extends string, P extends ParamSchemas, Q, B> {
  readonly params: ParamsOf<Path, P>;
  readonly query: Q;
  readonly body: B;
}

interface ApiBody<B extends z.ZodType> extends BodyDeclaration<B> {
  /** Returns warnings about the body as it came; throws a `Fault` for what cannot be ignored. */
  readonly review?: (given: unknown) => readonly string[];
  /** True for a body that also requires the right to have images built. */
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
  /** The login in the input. Default: that of the `Authorization` header. */
  readonly claim?: (input: Input<Path, P, z.output<Q>, z.output<B>>) => Claim;
  /**
   * Returns the body of the answer: an object or a boolean is sent as JSON, a text or stream with the declared
   * media type.
   */
  run(
    call: Input<Path, P, z.output<Q>, z.output<B>> & {
      readonly ctx: Context;
      readonly caller: CallerBy[A];
      /** What to know about the body although it is accepted. */
      readonly warnings: readonly string[];
      /** What the rate limit leaves to the caller; undefined without a limit. */
      readonly left: Allowance | undefined;
    },
    deps: D,
  ): unknown;
}

export interface ApiRoute<D> extends Declaration {
  /** Answers a call. Throws a `Fault` for every failure. */
  answer(ctx: Context, params: Readonly<Record<string, string>>, deps: D): Promise<void>;
}

/** A route of the JSON API. */
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
  const { access, body: bodyOf, limit, answers } = definition;
  return {
    ...declaration,

    async answer(ctx, rawParams, deps) {
      if (access === 'requests') deps.gate.beforeRequest();
      if (access === 'administrator') await deps.requireAdministrator(ctx.req);
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
      const { types } = answers[200] ?? {};
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

async function callerOf(
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
