/** The page for operators: use by day and organisation, the state of the server, and files for spreadsheets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import Database from 'better-sqlite3';
import type { Page } from 'playwright-core';
import { imageOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';
import { pageText } from './page-text.ts';

const authorization = `Basic ${btoa('admin:open sesame')}`;
const headers = { accept: 'text/html,*/*;q=0.8', authorization };
const hostile = `<script>alert(1)</script>"'\u202egro${'x'.repeat(10_000)}`;
const range = 'from=2026-01-01&to=2026-01-31';
let browser: TestBrowser;
let registry: Registry;
let sluice: Sluice;
let directory: TempDir;

before(async () => {
  [browser, registry] = await Promise.all([startBrowser(), startRegistry()]);
  directory = await makeTempDir('usage-page');
  const data = directory.join('data');
  const config = {
    accounts: { admin: 'open sesame' },
    registries: { [registry.host]: { plainHttp: true } },
    limits: { pulls: { anonymous: '1/hour' } },
  };
  const first = await startSluice({ config, data });
  await first.stop();
  const database = new Database(directory.join('data', 'sluice.db'));
  const add = database.prepare(
    "INSERT INTO usage (metric, arch, day, org, count) VALUES (?, '', ?, ?, ?)",
  );
  database.transaction(() => {
    for (let day = 1; day <= 31; day += 1) {
      const date = `2026-01-${String(day).padStart(2, '0')}`;
      add.run('pulls', date, 'one.org', day * 10);
      add.run('pulls', date, '', 3);
      add.run('builds', date, 'one.org', day % 7);
    }
    add.run('pulls', '2026-01-02', hostile, 5);
    add.run('pulls', '2026-01-02', '=HYPERLINK("http://example.com")', 4);
    for (let org = 0; org < 300; org += 1) add.run('pulls', '2026-01-03', `many-${org}.org`, 1);
  })();
  database.close();
  sluice = await startSluice({ config, data });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await registry?.stop();
  await directory?.remove();
});

const textOf = (path: string) => pageText(sluice, path, headers);

test('usage can be read at every width, light and dark', async () => {
  const open = async (page: Page) => {
    for (const summary of await page.locator('summary').all()) await summary.click();
  };
  await checkLooks(browser, `${sluice.url}/view/usage?${range}`, 'usage', open, {
    headers: { authorization },
  });
});

test('the page has the counts of its range, by day and by organisation', async () => {
  await using tab = await browser.open({ javaScript: false, headers: { authorization } });
  const { page } = tab;
  await page.goto(`${sluice.url}/view/usage?${range}`);
  const total = 10 * ((31 * 32) / 2) + 31 * 3 + 5 + 4 + 300;
  const text = await page.locator('main').innerText();
  assert.match(text, new RegExp(`${total.toLocaleString('en-US')} from 2026-01-01 to 2026-01-31`));
  assert.equal(await page.locator('svg.chart').first().locator('rect.bar').count(), 31);
  assert.match(text, /one\.org\s+4,960\s/);
  assert.match(text, /without an organisation\s+93\s/);
  assert.match(text, /others\s+\d+\s/);
});

test('a pull and a limit that it reaches are on the page', async () => {
  const layers = [await layerOf([{ name: 'file', content: 'text' }])];
  const pusher = await Pusher.open(registry, 'team/app');
  await pusher.push(imageOf({ layers }), '1');
  await pusher.close();
  const pull = async () => {
    const { targetImage } = await sluice.request({ containerImage: `${registry.host}/team/app:1` });
    return (await fetch(sluice.at(targetImage, 'manifests/1'))).status;
  };
  assert.deepEqual([await pull(), await pull()], [200, 429]);
  assert.match(await textOf('/view/usage'), /<strong>1<\/strong> from /);
  const text = await textOf('/view/usage/limits');
  assert.match(text, /<bdi>pulls<\/bdi><\/td><td class="number">1</);
  assert.match(text, /<bdi>127\.0\.0\.1<\/bdi><\/td><td class="number">1</);
  assert.match(text, /manifests<\/bdi><\/td><td><bdi>429<\/bdi><\/td><td class="number">1</);
  assert.match(await textOf('/view/usage/limits.csv'), /^Limit,Refused requests\r\npulls,1\r\n/);
  const metrics = await (await sluice.fetch('/metrics')).text();
  assert.match(metrics, /^sluice_limits_reached_total\{limit="pulls"\} 1$/m);
  assert.ok(!metrics.includes('127.0.0.1'), 'callers are for operators only');
});

test('refused connections count as a limit', async () => {
  await using full = await startSluice({
    config: {
      accounts: { admin: 'open sesame' },
      limits: { connections: { perAddress: 5 } },
    },
  });
  const sockets = Array.from({ length: 12 }, () => connect(full.port, '127.0.0.1'));
  const ends = sockets.map(socket =>
    once(
      socket.resume().on('error', () => {}),
      'close',
    ),
  );
  await Promise.race(ends);
  for (const socket of sockets) socket.destroy();
  await Promise.all(ends);
  await eventually('connections are free again', async () => {
    const response = await full.fetch('/view/usage/limits.csv', { headers }).catch(() => undefined);
    return (await response?.text())?.includes('open connections from one address') ?? false;
  });
});

test('hostile names of organisations are text', async () => {
  const text = await textOf(`/view/usage?${range}`);
  assert.ok(!text.includes('<script>alert') && !text.includes('\u202e'));
  assert.ok(text.includes('&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;\\u{202e}gro'));
  assert.ok(text.length < 60_000, `${text.length} characters`);
});

test('a file for spreadsheets runs no formula', async () => {
  const orgs = await textOf(`/view/usage/organisations.csv?${range}`);
  assert.match(orgs, /^organisation,pulls\r\none\.org,4960\r\n/);
  assert.match(orgs, /^"'=HYPERLINK\(""http:\/\/example\.com""\)",4\r$/m);
  const days = await textOf(`/view/usage/days.csv?metric=builds&${range}`);
  assert.equal(days.split('\r\n').length, 33);
  assert.match(days, /^day,builds\r\n2026-01-01,1\r\n/);
});

test('only administrators see usage', async () => {
  for (const path of ['', '/builds', '/limits', '/days.csv', '/organisations.csv', '/limits.csv']) {
    const response = await sluice.fetch(`/view/usage${path}`, { redirect: 'manual' });
    assert.ok([401, 303].includes(response.status), `${path} ${response.status}`);
    assert.doesNotMatch(await response.text(), /one\.org/);
  }
});

test('a wrong range is explained', async () => {
  for (const [query, message] of [
    ['from=2026-02-30', /yyyy-mm-dd/],
    ['from=2026-02-02&to=2026-02-01', /after the last day/],
    ['from=2020-01-01&to=2026-01-01', /at most 366/],
  ] as const) {
    const response = await sluice.fetch(`/view/usage?${query}`, { headers });
    assert.equal(response.status, 400, query);
    assert.match(await response.text(), message);
  }
});
