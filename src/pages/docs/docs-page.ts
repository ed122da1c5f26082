import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Fault } from '../../foundation/fault.ts';
import type { Version } from '../../foundation/version.ts';
import { describePlatformApi } from '../../http/platform/platform-api.ts';
import type { OpenApi } from '../../http/route/index.ts';
import type { Asset } from '../frame/assets.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';

/** A file that the pages load after their first view. */
interface DocsAsset extends Asset {
  readonly name: string;
}

const scriptType = 'text/javascript; charset=utf-8';
const styleType = 'text/css; charset=utf-8';

/** Reads the library and what it wears here. `scripts/generate.ts` stores the library compressed with gzip. */
function readDocsAssets() {
  const kept = (name: string) => readFileSync(new URL(`swagger/${name}`, import.meta.url));
  return {
    library: docsAsset('swagger-ui', 'js', scriptType, kept('swagger-ui.js.gz')),
    libraryStyle: docsAsset('swagger-ui', 'css', styleType, kept('swagger-ui.css.gz')),
    theme: docsAsset('theme', 'css', styleType, gzipSync(kept('theme.css'), { level: 9 })),
  };
}

type DocsAssets = ReturnType<typeof readDocsAssets>;

function docsAsset(name: string, extension: string, type: string, packed: Buffer): DocsAsset {
  const digest = createHash('sha256').update(packed).digest('hex').slice(0, 16);
  return {
    name: `${name}-${digest}.${extension}`,
    type,
    packed,
    plain: () => gunzipSync(packed),
  };
}

const apis = [
  { path: '/docs', title: 'Container API', document: '/openapi.json' },
  { path: '/docs/platform', title: 'Platform API', document: '/platform/openapi.json' },
] as const;

type DocsPath = (typeof apis)[number]['path'];

const docsAssetsPath = '/docs/assets';

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly summary: string;
}

/**
 * Returns the page of an API. Its first view lists the calls. Then a script loads Swagger UI, where people read and try
 * them, in place of the list.
 */
function docsPage(path: DocsPath, api: OpenApi, assets: DocsAssets): Page {
  const shown = apis.find(one => one.path === path) ?? apis[0];
  const at = ({ name }: { readonly name: string }) => `${docsAssetsPath}/${name}`;
  const { library, libraryStyle, theme } = assets;
  const operations = operationsByTag(api);
  return {
    title: shown.title,
    scripts: ['docs'],
    content: html`<h1>${shown.title}</h1>
<p class="lead">${api.info.description}</p>
<nav class="tabs" aria-label="APIs">${apis.map(
      ({ path: to, title }) =>
        html`<a href="${to}"${to === path && html` aria-current="page"`}>${title}</a>`,
    )}<a href="${shown.document}">OpenAPI document</a></nav>
<div id="calls">${tagsOf(api).map(
      ({ name, description }) => html`
<section aria-labelledby="tag-${name}">
<h2 id="tag-${name}">${name}</h2>
<p class="minor">${description}</p>
${listOf(operations.get(name) ?? [])}
</section>`,
    )}</div>
<section aria-labelledby="try" hidden>
<h2 id="try">Calls</h2>
<div id="api" data-document="${shown.document}" data-library="${at(library)}" data-style="${at(libraryStyle)}" data-theme="${at(theme)}"></div>
</section>`,
  };
}

function listOf(operations: readonly Operation[]): Html {
  return html`<ul class="calls">${operations.map(
    ({ method, path, summary }) =>
      html`<li><span class="method">${method}</span> <code>${path}</code> <span class="minor">${summary}</span></li>`,
  )}</ul>`;
}

function tagsOf({ tags }: OpenApi): readonly { name: string; description: string }[] {
  return tags as { name: string; description: string }[];
}

function operationsByTag(api: OpenApi): ReadonlyMap<string, readonly Operation[]> {
  const found = new Map<string, Operation[]>();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, { tags, summary }] of Object.entries(methods)) {
      const [tag = ''] = tags as readonly string[];
      found.set(tag, [...(found.get(tag) ?? []), { method: method.toUpperCase(), path, summary }]);
    }
  }
  return found;
}

export interface DocsDeps {
  readonly openapi: () => OpenApi;
  readonly version: Version;
}

let readAssets: DocsAssets | undefined;
/** Reads the files when the first page is requested: most servers never show one. */
const assets = (): DocsAssets => (readAssets ??= readDocsAssets());

let describedApi: OpenApi | undefined;
const platformApi = ({ version }: Version): OpenApi =>
  (describedApi ??= describePlatformApi(version));

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
