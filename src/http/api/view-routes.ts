import type { Router, RouterContext } from '@koa/router';
import type { RequestState } from '../request-state.ts';

/**
 * Addresses of pages that clients and their users have from other services: each redirects to the route that
 * has the same as JSON. A build whose number is written with `-` is the one with `_`, as in the reference service.
 */
export function viewRoutes(router: Router<RequestState>): void {
  router.get('/view/builds/:id', ctx => {
    const id = (ctx.params.id ?? '').replace(/-(\d+)$/, '_$1');
    redirect(ctx, `/v1alpha1/builds/${encodeURIComponent(id)}`);
  });
  router.get('/view/containers/:token', ctx => {
    redirect(ctx, `/v1alpha2/container/${encodeURIComponent(ctx.params.token ?? '')}`);
  });
}

function redirect(ctx: RouterContext<RequestState>, location: string): void {
  ctx.status = 303;
  ctx.set('location', location);
  ctx.body = { location };
}
