import type { IncomingMessage } from 'node:http';
import type { Claim } from '../../platform/index.ts';
import type { Caller } from '../../request/index.ts';
import type { Identify, RequireAdministrator } from '../callers/identify.ts';
import { callerAddress, networkOf } from '../client-address.ts';
import type { Gate } from '../gates/access-gate.ts';
import { type CallerRates, type Limiter, rateFor } from '../limits/limiter.ts';
import type { Declaration, Documentation } from '../route/declaration.ts';
import { type Context, type HttpRequest, type RunLimited, routesOf } from '../route/pipeline.ts';
import { runWithinLimit } from './within-limit.ts';

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

/** The routes of the JSON API. */
export interface ApiKind {
  readonly declares: Documentation;
  readonly knows: {
    readonly anybody: { readonly ctx: Context };
    /** Anybody, identified if they send a login. */
    readonly caller: { readonly ctx: Context; readonly caller: Caller };
    /** Callers with the right to make container requests. */
    readonly requests: { readonly ctx: Context; readonly caller: Caller };
    /** Administrators with the role `site`. */
    readonly administrator: { readonly ctx: Context };
  };
  readonly request: HttpRequest;
  /** Objects and booleans are sent as JSON, texts and streams with the declared media type. */
  readonly returns: unknown;
  readonly deps: ApiBasis;
}

/** Creates a route of the JSON API. */
export const apiRoute = routesOf<ApiKind>(async (route, { ctx }, deps, readInput) => {
  const { access } = route;
  if (access === 'requests') deps.gate.beforeRequest();
  if (access === 'administrator') await deps.requireAdministrator(ctx.req, 'site');
  const input = await readInput();
  // A handler that sends another type sets it again.
  const { types } = route.responses[200] ?? {};
  if (types?.[0]) ctx.type = types[0];
  if (access !== 'requests' && access !== 'caller') return { input, known: { ctx } };
  const caller = await callerOf(ctx.req, route.claim?.(input) ?? {}, deps);
  if (access === 'requests') deps.gate.request(caller);
  if (route.body?.isBuild?.(input.body)) deps.gate.build(caller);
  return { input, known: { ctx, caller }, limit: limitOf(route, caller, ctx, deps) };
});

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

/** Returns the limit that a route declares, for one caller. */
export function limitOf(
  { limit }: Pick<Declaration, 'limit'>,
  caller: Caller,
  ctx: Context,
  { limiter, rates }: Pick<ApiBasis, 'limiter' | 'rates'>,
): RunLimited | undefined {
  const rate = limit && rateFor(rates, caller, caller.address);
  return rate && (work => runWithinLimit(limiter, rate, headers => ctx.set(headers), work));
}
