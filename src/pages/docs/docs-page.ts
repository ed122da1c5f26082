import type { OpenApi } from '../../http/route/index.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import type { DocsAssets } from './docs-assets.ts';

const apis = [
  { path: '/docs', title: 'Container API', document: '/openapi.json' },
  { path: '/docs/platform', title: 'Platform API', document: '/platform/openapi.json' },
] as const;

export type DocsPath = (typeof apis)[number]['path'];

export const docsAssetsPath = '/docs/assets';

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly summary: string;
}

/**
 * Returns the page of an API. Its first view lists the calls. Then a script loads Swagger UI, where people read and try
 * them, in place of the list.
 */
export function docsPage(path: DocsPath, api: OpenApi, assets: DocsAssets): Page {
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
