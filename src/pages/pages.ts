import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Middleware, ParameterizedContext } from 'koa';
import { Fault } from '../foundation/fault.ts';
import { pageHeaders } from '../foundation/responses.ts';
import type { LiveNameDeps } from '../http/api/index.ts';
import { type RequestState, refuseForeignForms } from '../http/index.ts';
import { type Context, type Route, serveRoutes } from '../http/route/index.ts';
import { type AccountDeps, accountRoutes } from './account/account-page.ts';
import { loginRoutes } from './account/login-page.ts';
import { workspaceRoutes } from './account/workspace-pages.ts';
import { askRoutes } from './ask/ask-page.ts';
import type { AskDeps } from './ask/ask-responses.ts';
import { type BuildPageDeps, buildPageRoutes } from './builds/build-page-routes.ts';
import { type BuildWatchesDeps, createBuildWatches } from './builds/build-watches.ts';
import type { ContainerPageDeps } from './containers/container-data.ts';
import { containerPages } from './containers/container-page.ts';
import { type DocsDeps, docsRoutes } from './docs/docs-page.ts';
import { type Assets, assetsPath, readAssets } from './frame/assets.ts';
import type { Html } from './frame/html.ts';
import { errorPage, layout, type Page, type ShownViewer } from './frame/page-layout.ts';
import { type PageBasis, type PageKind, type PageResponse, pageRoute } from './frame/page-route.ts';
import { type InspectPageDeps, inspectPage } from './images/inspect-page.ts';
import { type LayerPageDeps, layerPages } from './images/layer/layer-page.ts';
import { type BuildListDeps, buildListRoutes } from './lists/build-list-page.ts';
import { liveNamePages } from './lists/live-name-pages.ts';
import { type RepositoryPagesDeps, repositoryRoutes } from './lists/repository-routes.ts';
import { type ScanPageDeps, scanPage } from './scans/scan-page.ts';
import type { UsagePageDeps } from './usage/usage-data.ts';
import { usagePages } from './usage/usage-pages.ts';

export type PagesDeps = Omit<PageBasis, 'refuseForeignForms'> &
  AskDeps &
  ContainerPageDeps &
  LiveNameDeps &
  InspectPageDeps &
  ScanPageDeps &
  LayerPageDeps &
  UsagePageDeps &
  DocsDeps &
  AccountDeps &
  BuildListDeps &
  RepositoryPagesDeps &
  Omit<BuildPageDeps, 'watches'> &
  BuildWatchesDeps & {
    /** Address of documentation for people. */
    readonly documentation: string | undefined;
  };

// Their addresses contain the digest of their content.
const forGood = 'public, max-age=31536000, immutable';
// A failure is a page or JSON, and a page is for one person.
const vary = 'Accept, Accept-Encoding, Cookie';
const zip = promisify(gzip);
let read: Assets | undefined;
/** Reads the files when the first page is requested: most servers never show one. */
const assets = (): Assets => (read ??= readAssets());

/** Answers every request in the same way, whoever sends it. */
const assetRoute = pageRoute({
  method: 'get',
  path: `${assetsPath}/{digest}/{name}`,
  access: 'unchecked',
  run({ params: { digest, name } }) {
    const asset = assets().find(digest, name);
    if (!asset) {
      throw new Fault('not-found', 'This page has no such file: reload the page', {
        phase: 'request',
      });
    }
    return { asset };
  },
});

/** Browsers that show something else than a page, such as JSON, ask for the icon here. */
const iconRoute = pageRoute({
  method: 'get',
  path: '/favicon.ico',
  access: 'unchecked',
  run: () => ({ location: `${assets().base}/logo.svg` }),
});

/** All pages, and the files that they load. */
export const pageRoutes: readonly Route<PageKind, PagesDeps & PageBasis & BuildPageDeps>[] = [
  ...askRoutes,
  ...buildListRoutes,
  ...buildPageRoutes,
  ...containerPages,
  ...liveNamePages,
  inspectPage,
  scanPage,
  ...layerPages,
  ...repositoryRoutes,
  ...usagePages,
  ...docsRoutes,
  ...loginRoutes,
  ...accountRoutes,
  ...workspaceRoutes,
  assetRoute,
  iconRoute,
];

const anonymous = { name: undefined, isAdministrator: false };

/** Answers requests for pages. Failures of browsers become pages too, also those of the JSON API. */
export function pages(deps: PagesDeps): Middleware<RequestState> {
  const places = new Set(pageRoutes.map(({ path }) => firstSegment(path)));
  const serve = serveRoutes(
    pageRoutes,
    {
      passes: ({ state }, { isShared }) => isShared === true && !state.showFault,
      send: (ctx, response) => sendResponse(ctx, response, deps),
    },
    {
      ...deps,
      watches: createBuildWatches(deps),
      refuseForeignForms: refuseForeignForms(deps.publicUrl),
    },
  );
  return (ctx, next) => {
    if (prefersHtml(ctx)) {
      ctx.state.showFault = (fault, requestId) => showFault(ctx, fault, requestId, deps);
    }
    // Calls of the API do not pay for a look at every page.
    return places.has(firstSegment(ctx.path)) ? serve(ctx, next) : next();
  };
}

async function sendResponse(
  ctx: Context,
  response: PageResponse | undefined,
  deps: PagesDeps,
): Promise<void> {
  if (!response) return;
  if ('location' in response) {
    ctx.status = 303;
    ctx.set('location', response.location);
    ctx.body = '';
    return;
  }
  if ('asset' in response) {
    const { type, packed, plain } = response.asset;
    ctx.type = type;
    ctx.set('cache-control', forGood);
    ctx.vary('Accept-Encoding');
    ctx.body = isForGzip(ctx) ? packed : plain();
    return;
  }
  const nonce = randomBytes(16).toString('base64url');
  if ('piece' in response) return sendHtml(ctx, response.piece, nonce);
  const viewer = ctx.state.person ?? anonymous;
  await sendHtml(ctx, documentOf(ctx, response, viewer, nonce, deps), nonce, response.status);
}

function firstSegment(path: string): string | undefined {
  return path.split('/', 2)[1];
}

function prefersHtml(ctx: Pick<ParameterizedContext, 'accepts' | 'path' | 'req'>): boolean {
  // Programs do not name HTML: nothing has to be weighed.
  if (!/text\//i.test(ctx.req.headers.accept ?? '')) return false;
  return !ctx.path.startsWith('/v2') && ctx.accepts('json', 'html') === 'html';
}

function documentOf(
  { path }: Pick<ParameterizedContext, 'path'>,
  page: Page,
  viewer: ShownViewer,
  nonce: string,
  { version: { version }, documentation }: PagesDeps,
): Html {
  const { base: assetsBase } = assets();
  return layout(page, { path, assetsBase, nonce, version, documentation, viewer });
}

async function sendHtml(ctx: Context, content: Html, nonce: string, status = 200): Promise<void> {
  const bytes = Buffer.from(content.toString());
  ctx.status = status;
  ctx.type = 'text/html; charset=utf-8';
  ctx.set(pageHeaders(nonce));
  ctx.set('cache-control', 'no-store');
  ctx.vary(vary);
  ctx.body = isForGzip(ctx) ? await zip(bytes) : bytes;
}

/** Returns true for a client that accepts gzip, and says in the response that it is used. */
function isForGzip(ctx: Context): boolean {
  const isPacked = ctx.acceptsEncodings('gzip') !== false;
  if (isPacked) ctx.set('content-encoding', 'gzip');
  return isPacked;
}

function showFault(
  ctx: Context,
  fault: Fault,
  requestId: string,
  deps: PagesDeps,
): { readonly body: string; readonly headers: Record<string, string> } {
  const nonce = randomBytes(16).toString('base64url');
  const document = documentOf(
    ctx,
    errorPage(fault, requestId, ctx.originalUrl),
    // Nobody is looked up here: that could fail as the page did.
    ctx.state.person ?? { ...anonymous, mayBeLoggedIn: deps.cookie.read(ctx.req) !== undefined },
    nonce,
    deps,
  );
  return {
    body: document.toString(),
    headers: {
      ...pageHeaders(nonce),
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      vary,
    },
  };
}
