import type { Middleware, ParameterizedContext } from 'koa';
import type { RequestState } from '../request-state.ts';

/** Checks a request before its route; throws a `Fault` to reject it. */
export type Check = (ctx: ParameterizedContext<RequestState>) => void;

/** Runs all checks of a request in one middleware step: a step for each would slow down pulls of manifests. */
export function gate(...checks: readonly Check[]): Middleware<RequestState> {
  return (ctx, next) => {
    for (const check of checks) check(ctx);
    return next();
  };
}
