/** The pages of the APIs: a light first view, then Swagger UI in the clothes of the other pages. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { call } from '../faults/http-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, requireAccessible, startBrowser, type TestBrowser } from './browser-world.ts';

let browser: TestBrowser;
let sluice: Sluice;
before(async () => {
  browser = await startBrowser();
  sluice = await startSluice();
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
});

const apis = [
  { path: '/docs', document: '/openapi.json', route: '/v1alpha2/container' },
  { path: '/docs/platform', document: '/platform/openapi.json', route: '/user-info' },
] as const;

const rendered = (page: Page) => page.locator('#api:not([hidden]) .opblock').first().waitFor();

for (const { path, document, route } of apis) {
  const name = path.slice(1).replace('/', '-');

  test(`${path} can be read at every width, light and dark`, async () => {
    await checkLooks(browser, sluice.url + path, name, async page => {
      await rendered(page);
      await page.locator('.opblock-summary-control').last().click();
      await page.locator('.opblock-body').first().waitFor();
    });
  });

  test(`${path} lists the calls without scripts`, async () => {
    await using tab = await browser.open({ javaScript: false });
    await tab.page.goto(sluice.url + path);
    await tab.page.getByText(route, { exact: true }).first().waitFor();
  });

  test(`${path} loads its own files only, the library after the first view`, async () => {
    const reply = await call(sluice.url + path);
    assert.equal(reply.status, 200);
    const text = reply.body.toString();
    assert.equal((await call(sluice.url + document)).status, 200);
    assert.doesNotMatch(text, / style=| on\w+=|<script>|https?:\/\//);
    assert.doesNotMatch(text, /(?:src|href)="[^"]*swagger/);
    const files = [...text.matchAll(/data-(?:library|style|theme)="([^"]+)"/g)];
    assert.equal(files.length, 3);
    for (const [, file = ''] of files) {
      const plain = await call(sluice.url + file);
      const packed = await call(sluice.url + file, { headers: { 'accept-encoding': 'gzip' } });
      assert.match(
        String(plain.headers['content-type']),
        /^text\/(?:javascript|css); charset=utf-8$/,
      );
      assert.match(String(plain.headers['cache-control']), /immutable/);
      assert.equal(packed.headers['content-encoding'], 'gzip');
      assertBytes(gunzipSync(packed.body), plain.body);
    }
  });
}

test('a call can be tried on the page', async () => {
  await using tab = await browser.open();
  const { page } = tab;
  await page.goto(`${sluice.url}/docs#/Service/getServiceInfo`);
  const block = page.locator('#operations-Service-getServiceInfo');
  await block.getByRole('button', { name: 'Execute' }).click();
  await block.getByText('"version"').first().waitFor();
  await requireAccessible(page);
});

test('a file of another version is 404', async () => {
  const old = await call(`${sluice.url}/docs/assets/theme-0000000000000000.css`);
  assert.equal(old.status, 404);
  assert.match(old.body.toString(), /reload the page/);
});
