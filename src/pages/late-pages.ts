import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Middleware } from 'koa';
import type { RequestState } from '../http/index.ts';
import type { PagesDeps } from './pages.ts';

/** Loads the code of pages part by part: all of it at once would block the event loop for more than 50 ms. */
const parts = [
  () => import('./usage/charts.ts'),
  () => import('./frame/page-layout.ts'),
  () => import('./account/account-page.ts'),
  () => import('./ask/ask-page.ts'),
  () => import('./builds/build-page-routes.ts'),
  () => import('./containers/container-page.ts'),
  () => import('./images/layer/layer-page.ts'),
  () => import('./lists/repository-routes.ts'),
  () => import('./usage/usage-pages.ts'),
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
  const { pages } = await import('./pages.ts');
  return pages(deps);
}
