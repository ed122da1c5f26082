/** Writes the pages and descriptions that are made from the code: `npm run generate`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { readVersion } from '../src/foundation/version.ts';
import { describeJsonApi } from '../src/http/api/json-api.ts';
import { describePlatformApi } from '../src/http/platform/platform-api.ts';
import { commandLinePage } from './command-line-page.ts';
import { configurationPage } from './configuration-page.ts';
import { decisionsPage } from './decisions-page.ts';
import { fieldsPage } from './fields-page.ts';

const docs = new URL('../docs/', import.meta.url);

writeFileSync(new URL('configuration.md', docs), configurationPage());
writeFileSync(new URL('fields.md', docs), fieldsPage());
writeFileSync(new URL('command-line.md', docs), await commandLinePage());
const decisions = new URL('adr/', docs);
writeFileSync(new URL('README.md', decisions), decisionsPage(decisions));
const { version } = readVersion();
writeJson('openapi.json', describeJsonApi(version));
writeJson('platform-openapi.json', describePlatformApi(version));

// Compresses the page of the API, so that it takes little space in the package, and leaves out its other builds.
const shownBy = new URL('../src/pages/docs/swagger/', import.meta.url);
const renderer = new URL('../node_modules/swagger-ui-dist/', import.meta.url);
for (const [name, from] of [
  ['swagger-ui.js.gz', 'swagger-ui-bundle.js'],
  ['swagger-ui.css.gz', 'swagger-ui.css'],
] as const) {
  const text = readFileSync(new URL(from, renderer), 'utf8');
  const bare = text.replace(/\n\/[/*]# sourceMappingURL=\S+(?: \*\/)?\s*$/, '\n');
  writeFileSync(new URL(name, shownBy), gzipSync(bare, { level: 9 }));
}
for (const name of ['LICENSE', 'NOTICE']) {
  writeFileSync(new URL(name, shownBy), readFileSync(new URL(name, renderer)));
}

function writeJson(name: string, value: object): void {
  writeFileSync(new URL(name, docs), `${JSON.stringify(value, null, 2)}\n`);
}
