import type { Middleware, ParameterizedContext } from 'koa';
import type { RequestState } from '../request-state.ts';

/** Looks at a request before its route does; throws a `Fault` to refuse it. */
export type Check = (ctx: ParameterizedContext<RequestState>) => void;

/** What every request passes. One step for all checks: a step each would cost a pull of a manifest more. */
export function gate(...checks: readonly Check[]): Middleware<RequestState> {
  return (ctx, next) => {
    for (const check of checks) check(ctx);
    return next();
  };
}
