import { createHash } from 'node:crypto';
import type { ApiOperation, OpenApi } from '../../route/describe-api.ts';

const style = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid #ccc; padding: .4rem .8rem .4rem 0; vertical-align: top; }
code { font-size: .95em; }
pre { overflow: auto; background: #8881; padding: 1rem; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } a { color: #8cf; } }
`;

/** The hash by which a content security policy allows the style of the page. */
export const docsStyleHash = `sha256-${createHash('sha256').update(style).digest('base64')}`;

/** A page for people: every route in a line, and the schemas as they are. Needs nothing from elsewhere. */
export function docsPage(api: OpenApi): string {
  const rows = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => row(method, path, operation)),
  );
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(api.info.title)} API</title>
<style>${style}</style>
<h1>${escapeHtml(api.info.title)} ${escapeHtml(api.info.version)}</h1>
<p>${escapeHtml(api.info.description)} The whole description: <a href="/openapi.json">openapi.json</a>.</p>
<table>${rows.join('')}</table>
<h2>Bodies</h2>
<pre>${escapeHtml(JSON.stringify(api.components, null, 2))}</pre>
</html>
`;
}

function row(method: string, path: string, { summary, deprecated }: ApiOperation): string {
  const note = deprecated === true ? ' (deprecated)' : '';
  return `<tr><td><code>${method.toUpperCase()} ${escapeHtml(path)}</code><td>${escapeHtml(summary + note)}`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
