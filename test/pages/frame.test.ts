/** What all pages have: their policy, their files, their failures. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const asBrowser = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } };
let browser: TestBrowser;
let sluice: Sluice;
before(async () => {
  browser = await startBrowser();
  sluice = await startSluice({
    config: { documentation: 'https://docs.example.org/sluice?a=1&b' },
  });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
});

test('the first page can be read at every width, light and dark', async () => {
  await checkLooks(browser, `${sluice.url}/`, 'ask');
});

test('each page leads to the documentation that the operator names', async () => {
  for (const path of ['/', '/view/nothing']) {
    const text = await (await sluice.fetch(path, asBrowser)).text();
    assert.match(
      text,
      /<footer [^>]*><span>Sluice [^<]*<\/span><a href="https:\/\/docs\.example\.org\/sluice\?a=1&amp;b">Documentation<\/a><\/footer>/,
    );
  }
});

test('a server without accounts asks for a token alone, and says how to make one', async () => {
  const text = await (await sluice.fetch('/view/login', asBrowser)).text();
  assert.doesNotMatch(text, /name="password"/);
  assert.match(text, /sluice token add --user EMAIL/);
});

test('a page loads its own files only, and a browser keeps them for good', async () => {
  const response = await sluice.fetch('/', asBrowser);
  assert.equal(response.status, 200);
  const policy = response.headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'; script-src 'nonce-[\w-]{22}'; style-src 'nonce-/);
  assert.doesNotMatch(policy, /unsafe/);
  assert.equal(response.headers.get('cache-control'), 'no-store');
  const text = await response.text();
  const addresses = [...text.matchAll(/(?:src|href)="([^"]+\.(?:js|css))"/g)].map(([, at]) => at);
  assert.ok(addresses.length >= 2);
  for (const address of addresses) {
    const file = await sluice.fetch(address ?? '');
    assert.equal(file.status, 200, address);
    assert.equal(file.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    assert.ok((await file.arrayBuffer()).byteLength > 0);
  }
  const stale = await sluice.fetch('/view/assets/0000000000000000/common.js');
  assert.equal(stale.status, 404);
});

test('a failure is a page for a browser, and JSON for a program', async () => {
  const page = await sluice.fetch('/view/nothing/%3Cscript%3E', asBrowser);
  assert.equal(page.status, 404);
  assert.match(page.headers.get('content-type') ?? '', /^text\/html/);
  assert.match(await page.text(), /<p class="failure">This server has no page at this address/);
  const json = await sluice.fetch('/view/nothing');
  assert.match(json.headers.get('content-type') ?? '', /^application\/json/);
});

test('a page that does not exist has links to where its content may be', async () => {
  for (const [path, expected] of [
    ['/view/nothing', ['/']],
    ['/view/builds/nothing', ['/view/builds', '/']],
    ['/view/containers/nothing?a=b', ['/view/containers', '/']],
  ] as const) {
    const page = await sluice.fetch(path, asBrowser);
    assert.equal(page.status, 404);
    const [, content = ''] = (await page.text()).split('<main');
    const links = [...content.matchAll(/<a class="button quiet" href="([^"]*)"/g)];
    assert.deepEqual(
      links.map(([, to]) => to),
      expected,
    );
  }
});

test('every page has the logo, which is also the icon of its tab', async () => {
  await using tab = await browser.open();
  await tab.page.goto(`${sluice.url}/view/login`);
  const logo = tab.page.locator('.brand img');
  assert.ok(
    await logo.evaluate(one => (one as unknown as { naturalWidth: number }).naturalWidth > 0),
  );
  const icon = await tab.page.locator('link[rel="icon"]').getAttribute('href');
  assert.equal(icon, await logo.getAttribute('src'));
  const response = await sluice.fetch(icon ?? '');
  assert.equal(response.headers.get('content-type'), 'image/svg+xml');
});

test('a server without pages answers browsers as it answers programs', async () => {
  await using bare = await startSluice({ config: { pages: 'off' } });
  for (const path of ['/', '/docs', '/view/builds/1', '/view/assets/0/style.css']) {
    const response = await bare.fetch(path, asBrowser);
    assert.equal(response.status, 404, path);
    assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
    const { message } = (await response.json()) as { message: string };
    if (path !== '/view/builds/1') assert.match(message, /GET \/openapi\.json lists them all/);
  }
});

test('a wrong method on a page is refused', async () => {
  const response = await sluice.fetch('/', { method: 'PUT', ...asBrowser });
  assert.equal(response.status, 405);
  assert.equal(response.headers.get('allow'), 'HEAD, GET, POST');
});
