/** The site of the documentation, as files without a server. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createReadStream, existsSync, globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { checkLooks, startBrowser } from '../pages/browser-world.ts';
import { runProgram } from '../world/program.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const project = join(import.meta.dirname, '../..');

test('the site has all pages, its links lead somewhere, and its search works without a server', async () => {
  await using folder = await makeTempDir('site');
  const root = folder.join('site');
  const script = join(project, 'scripts/site.ts');
  const made = await runProgram([process.execPath, script, root], { env: process.env });
  assert.equal(made.code, 0, made.stderr);
  const pages = globSync('**/*.html', { cwd: root });
  const written = globSync(['*.md', 'docs/**/*.md'], { cwd: project });
  assert.ok(pages.length >= written.length, `${pages.length} of ${written.length} pages`);
  const texts = new Map(pages.map(page => [page, readFileSync(join(root, page), 'utf8')]));
  const broken: string[] = [];
  for (const [page, text] of texts) {
    for (const [, address = ''] of text.matchAll(/ (?:href|src)="([^"]+)"/g)) {
      if (/^[a-z]+:/.test(address)) continue;
      const [path = '', anchor] = address.split('#');
      const target = path === '' ? page : join(dirname(page), path);
      const isThere = existsSync(join(root, target));
      const hasAnchor = anchor === undefined || texts.get(target)?.includes(` id="${anchor}"`);
      if (!isThere || !hasAnchor) broken.push(`${page}: ${address}`);
    }
  }
  assert.deepEqual(broken, []);

  await using browser = await startBrowser();
  // The checks fetch styles, which browsers do not do for files.
  const server = createServer(({ url = '' }, response) => {
    const type = url.endsWith('.css') ? 'text/css' : undefined;
    if (type) response.setHeader('content-type', type);
    createReadStream(join(root, url))
      .on('error', () => response.writeHead(404).end())
      .pipe(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    await checkLooks(browser, `http://127.0.0.1:${port}/docs/limits.html`, 'site');
  } finally {
    server.closeAllConnections();
    server.close();
  }

  const address = pathToFileURL(join(root, 'docs/limits.html')).href;
  await using tab = await browser.open({ width: 1100 });
  const { page } = tab;
  page.setDefaultTimeout(10_000);
  await page.goto(address);
  await page.getByRole('searchbox').fill('waiting builds caller');
  await page.getByRole('link', { name: 'Sizes and limits: Builds', exact: true }).click();
  await page.waitForURL(/limits\.html#builds$/);
  await page.getByRole('searchbox').fill('xyzzyx');
  await page.getByText('Nothing was found.').waitFor();
  await page.getByRole('navigation').getByText('Install', { exact: true }).click();
  await page.getByRole('heading', { name: 'Install', exact: true }).waitFor();
});
