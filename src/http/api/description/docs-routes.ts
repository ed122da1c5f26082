import { randomBytes } from 'node:crypto';
import type { ParameterizedContext } from 'koa';
import { Fault } from '../../../foundation/fault.ts';
import { pageHeaders } from '../../../foundation/security-headers.ts';
import { apiRoute } from '../api-route.ts';
import { type DocsAssets, readDocsAssets } from './docs-assets.ts';
import { type DocsPath, docsPage } from './docs-page.ts';

let read: DocsAssets | undefined;
/** Reads the files when the first page is requested: most servers never show one. */
const assets = (): DocsAssets => (read ??= readDocsAssets());

const shared = { method: 'get', tag: 'Service', access: 'anybody' } as const;
const page = { 200: { about: 'The page', types: ['text/html; charset=utf-8'] } };
// The name of a file contains the digest of its content.
const forGood = 'public, max-age=31536000, immutable';

/** Pages where people read and try the APIs. */
export const docsRoutes = [
  apiRoute({
    ...shared,
    id: 'getDocs',
    path: '/docs',
    summary: 'The page of this API',
    answers: page,
    run: ({ ctx }, _: object) => show(ctx, '/docs'),
  }),
  apiRoute({
    ...shared,
    id: 'getPlatformDocs',
    path: '/docs/platform',
    summary: 'The page of the API of the built-in platform',
    answers: page,
    run: ({ ctx }, _: object) => show(ctx, '/docs/platform'),
  }),
  apiRoute({
    ...shared,
    id: 'getDocsAsset',
    path: '/docs/assets/{name}',
    summary: 'A script or a style of the pages',
    answers: { 200: { about: 'The file', types: ['text/javascript', 'text/css'] } },
    faults: ['not-found'],
    run({ ctx, params }, _: object) {
      const asset = Object.values(assets()).find(({ name }) => name === params.name);
      if (!asset) {
        throw new Fault('not-found', 'This page has no such file: reload the page', {
          phase: 'request',
        });
      }
      ctx.type = asset.type;
      ctx.set('cache-control', forGood);
      ctx.vary('Accept-Encoding');
      if (!ctx.acceptsEncodings('gzip')) return asset.unpacked();
      ctx.set('content-encoding', 'gzip');
      return asset.packed;
    },
  }),
];

function show(ctx: ParameterizedContext, path: DocsPath): string {
  const nonce = randomBytes(16).toString('base64url');
  ctx.set(pageHeaders(nonce));
  ctx.set('cache-control', 'no-store');
  return docsPage(path, assets(), nonce);
}
