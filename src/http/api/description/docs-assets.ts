import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';

/** A file of the page. Its name contains its digest. */
export interface DocsAsset {
  readonly name: string;
  readonly type: string;
  readonly packed: Buffer;
  /** Returns the file for clients that do not accept gzip. */
  unpacked(): Buffer;
}

const start = `
const { url } = document.getElementById('api').dataset;
const dark = matchMedia('(prefers-color-scheme: dark)');
const show = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', show);
show();
SwaggerUIBundle({
  url,
  dom_id: '#api',
  deepLinking: true,
  docExpansion: 'list',
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
});
`;

const style = `
body { margin: 0; background: #fff; }
nav, noscript { display: block; font: 1rem/1.5 system-ui, sans-serif; padding: .75rem 20px; max-width: 1420px; margin: auto; }
nav a { margin-right: 1.25rem; color: #1d5fae; }
nav a[aria-current] { color: inherit; font-weight: 600; text-decoration: none; }
.swagger-ui .info { margin: 1.5rem 0; }
html.dark-mode body { background: #1c2022; }
html.dark-mode nav { color: #e4e6e6; }
html.dark-mode nav a { color: #8cc8ff; }
@media (max-width: 640px) {
  .swagger-ui .wrapper { padding: 0 10px; }
  .swagger-ui .opblock .opblock-summary { flex-wrap: wrap; }
  .swagger-ui .opblock .opblock-summary-path { max-width: 100%; font-size: 13px; }
  .swagger-ui .opblock .opblock-summary-description { flex-basis: 100%; padding: .25rem 10px; }
  .swagger-ui .scheme-container .schemes { flex-wrap: wrap; }
  .swagger-ui table.parameters, .swagger-ui table.parameters > tbody, .swagger-ui table.parameters tr,
  .swagger-ui table.responses-table, .swagger-ui table.responses-table > tbody, .swagger-ui table.responses-table tr { display: block; }
  .swagger-ui table.parameters > thead, .swagger-ui table.responses-table > thead { display: none; }
  .swagger-ui table.parameters td, .swagger-ui table.responses-table > tbody > tr > td { display: block; width: auto; max-width: 100%; box-sizing: border-box; }
  .swagger-ui .parameters-col_description input[type=text], .swagger-ui textarea, .swagger-ui select { max-width: 100%; min-width: 0; width: 100%; box-sizing: border-box; }
  .swagger-ui .filter .operation-filter-input { box-sizing: border-box; width: 100%; }
}
`;

/** Reads the files of the page. The package stores them compressed with gzip, see `scripts/generate.ts`. */
export function readDocsAssets() {
  const kept = (name: string) =>
    readFileSync(new URL(`../../../../docs/page/${name}`, import.meta.url));
  const script = 'text/javascript; charset=utf-8';
  const styles = 'text/css; charset=utf-8';
  return {
    library: asset('swagger-ui', 'js', script, kept('swagger-ui.js.gz')),
    libraryStyle: asset('swagger-ui', 'css', styles, kept('swagger-ui.css.gz')),
    start: asset('start', 'js', script, gzipSync(start)),
    style: asset('style', 'css', styles, gzipSync(style)),
  };
}

export type DocsAssets = ReturnType<typeof readDocsAssets>;

function asset(name: string, extension: string, type: string, packed: Buffer): DocsAsset {
  const digest = createHash('sha256').update(packed).digest('hex').slice(0, 16);
  return {
    name: `${name}-${digest}.${extension}`,
    type,
    packed,
    unpacked: () => gunzipSync(packed),
  };
}
