import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Middleware } from 'koa';
import type { RequestState } from '../../http/request-state.ts';
import type { PagesDeps } from '../../pages/pages.ts';

/** Loads the code of pages part by part: all of it at once would block the event loop for more than 50 ms. */
const parts = [
  () => import('../../pages/usage/charts/stacked-chart.ts'),
  () => import('../../pages/frame/page-layout.ts'),
  () => import('../../pages/account/account-page.ts'),
  () => import('../../pages/ask/ask-page.ts'),
  () => import('../../pages/builds/build-page-routes.ts'),
  () => import('../../pages/containers/container-page.ts'),
  () => import('../../pages/images/layer/layer-page.ts'),
  () => import('../../pages/lists/repository-routes.ts'),
  () => import('../../pages/usage/usage-pages.ts'),
];

/**
 * Answers requests for pages. Their code is loaded in the next turns of the event loop, when the server is ready: it is
 * a tenth of all code, and programs need none of it. Requests that come earlier wait for it.
 */
export function createLatePages(deps: PagesDeps): Middleware<RequestState> {
  const loaded = load(deps);
  // A request reports the failure.
  loaded.catch(() => {});
  return async (ctx, next) => (await loaded)(ctx, next);
}

async function load(deps: PagesDeps): Promise<Middleware<RequestState>> {
  for (const part of parts) {
    await nextTurn();
    await part();
  }
  const { pages } = await import('../../pages/pages.ts');
  return pages(deps);
}
