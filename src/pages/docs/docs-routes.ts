import { Fault } from '../../foundation/fault.ts';
import type { Version } from '../../foundation/version.ts';
import { describePlatformApi } from '../../http/platform/platform-api.ts';
import type { OpenApi } from '../../http/route/index.ts';
import { pageRoute } from '../frame/page-route.ts';
import { type DocsAssets, readDocsAssets } from './docs-assets.ts';
import { docsAssetsPath, docsPage } from './docs-page.ts';

export interface DocsDeps {
  readonly openapi: () => OpenApi;
  readonly version: Version;
}

let read: DocsAssets | undefined;
/** Reads the files when the first page is requested: most servers never show one. */
const assets = (): DocsAssets => (read ??= readDocsAssets());

let described: OpenApi | undefined;
const platformApi = ({ version }: Version): OpenApi => (described ??= describePlatformApi(version));

/** Pages where people read and try the APIs. */
export const docsRoutes = [
  pageRoute({
    method: 'get',
    path: '/docs',
    access: 'anybody',
    run: (_, { openapi }: DocsDeps) => docsPage('/docs', openapi(), assets()),
  }),
  pageRoute({
    method: 'get',
    path: '/docs/platform',
    access: 'anybody',
    run: (_, { version }: DocsDeps) => docsPage('/docs/platform', platformApi(version), assets()),
  }),
  pageRoute({
    method: 'get',
    path: `${docsAssetsPath}/{name}`,
    access: 'anybody',
    run({ params }) {
      const asset = Object.values(assets()).find(({ name }) => name === params.name);
      if (!asset) throw new Fault('not-found', 'This page has no such file: reload the page');
      return { asset };
    },
  }),
];
