import type { DocsAssets } from './docs-assets.ts';

const apis = [
  { path: '/docs', title: 'Container API', document: '/openapi.json' },
  { path: '/docs/platform', title: 'Platform API', document: '/platform/openapi.json' },
] as const;

export type DocsPath = (typeof apis)[number]['path'];

/** Returns the page of an API, where people read and call its routes. It loads nothing from other hosts. */
export function docsPage(path: DocsPath, assets: DocsAssets, nonce: string): string {
  const shown = apis.find(api => api.path === path) ?? apis[0];
  const links = apis.map(({ path: to, title }) =>
    to === path
      ? `<a href="${to}" aria-current="page">${title}</a>`
      : `<a href="${to}">${title}</a>`,
  );
  const { library, libraryStyle, start, style } = assets;
  const sheets = [libraryStyle, style].map(
    ({ name }) => `<link rel="stylesheet" href="/docs/assets/${name}" nonce="${nonce}">`,
  );
  const scripts = [library, start].map(
    ({ name }) => `<script src="/docs/assets/${name}" nonce="${nonce}"></script>`,
  );
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice: ${shown.title}</title>
<link rel="icon" href="data:,">
${sheets.join('\n')}
<nav aria-label="APIs">${links.join('')}<a href="${shown.document}">OpenAPI document</a></nav>
<main id="api" data-url="${shown.document}"></main>
<noscript>This page needs JavaScript. The <a href="${shown.document}">OpenAPI document</a> has everything on it.</noscript>
${scripts.join('\n')}
</html>
`;
}
