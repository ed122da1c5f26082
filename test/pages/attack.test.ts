/** All pages against hostile texts, addresses and headers. A new page is tested too: the paths come from its route. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { pageRoutes } from '../../src/pages/pages.ts';
import { call, type Reply } from '../faults/http-client.ts';
import { startSluice } from '../world/sluice.ts';
import { startBrowser, type TestBrowser } from './browser-world.ts';
import {
  type HostileWorld,
  hostileText,
  hostileTexts,
  queryWith,
  startHostileWorld,
} from './hostile-world.ts';

const accept = 'text/html,application/xhtml+xml,*/*;q=0.8';
const admin = `Basic ${Buffer.from('admin:open sesame').toString('base64')}`;
const long = 'x'.repeat(10_000);

// Elements that no page of Sluice has.
const strange =
  '[data-broken-out], script:not([nonce], [type="application/json"], [src^="/docs/assets/"]), base, [onerror], [onload], [onmouseover], a[href^="javascript:" i]';
// Elements that lead the browser elsewhere without a click.
const isOwn = (name: string) => `[${name}^="/"]:not([${name}^="//"]), [${name}^="data:"]`;
const loading = `meta[http-equiv="refresh" i], link:not(${isOwn('href')}), :is(img, iframe, embed, source)[src]:not(${isOwn('src')})`;

/** Runs in the browser: returns the elements of an HTML text that match. */
const findElements = `(html, selector) =>
  [...new DOMParser().parseFromString(html, 'text/html').querySelectorAll(selector)].map(({ outerHTML }) => outerHTML.slice(0, 200))`;

suite('attacks on pages', () => {
  let browser: TestBrowser;
  let world: HostileWorld;

  before(async () => {
    browser = await startBrowser();
    world = await startHostileWorld();
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await world?.[Symbol.asyncDispose]();
  });

  /** The requests of a browser, with the rights of an administrator, so that no page is spared. */
  const ask = (path: string, more: Readonly<Record<string, string>> = {}, method = 'GET') =>
    call(world.sluice.url + path, { method, headers: { accept, authorization: admin, ...more } });

  const readRoutes = pageRoutes.filter(({ method }) => method === 'get');

  /** Opens addresses one after the other. Returns what ran, what was refused, and what left its element. */
  async function findBreakouts(paths: readonly string[], javaScript: boolean): Promise<string[]> {
    const found: string[] = [];
    await using tab = await browser.open({
      javaScript,
      mayFail: true,
      headers: { authorization: admin },
    });
    const { page } = tab;
    page.on('dialog', async dialog => {
      found.push(`${page.url()}: dialog ${dialog.message()}`);
      await dialog.dismiss();
    });
    page.on('request', request => {
      const { origin, protocol } = new URL(request.url());
      if (protocol !== 'data:' && origin !== world.sluice.url) {
        found.push(`${page.url()}: request to ${request.url()}`);
      }
    });
    for (const path of paths) {
      const response = await page.goto(world.sluice.url + path);
      if (!response?.headers()['content-type']?.startsWith('text/html')) continue;
      for (const one of await page.locator(strange).all()) {
        const outer = await one.evaluate(element => (element as { outerHTML: string }).outerHTML);
        found.push(`${path}: ${outer.slice(0, 200)}`);
      }
    }
    return found;
  }

  /** Every path with every text in its query. */
  const pathsWith = (texts: readonly string[]) =>
    world.paths.flatMap(path => [
      path,
      ...texts.map(
        text => `${path}${path.includes('?') ? '&' : '?'}${queryWith(text.slice(0, 90))}`,
      ),
    ]);

  const unknownPaths = () =>
    readRoutes
      .filter(({ path }) => path.includes('{'))
      .map(({ path }) => world.pathOf(path, hostileText));

  for (const javaScript of [true, false]) {
    test(`no hostile text runs or leaves its element, ${javaScript ? 'with' : 'without'} scripts`, async () => {
      // A few are enough here: the server writes all texts alike.
      const paths = [...pathsWith(hostileTexts.slice(0, 2)), ...unknownPaths()];
      assert.deepEqual(await findBreakouts(paths, javaScript), []);
    });
  }

  test('every hostile text stays in its element when a browser reads the page', async () => {
    await using tab = await browser.open();
    const find = (html: string) => {
      const call = `(${findElements})(${JSON.stringify(html)}, ${JSON.stringify(`${strange}, ${loading}`)})`;
      return tab.page.evaluate<string[]>(call);
    };
    for (const text of hostileTexts.slice(0, 6))
      assert.notDeepEqual(await find(`<pre title="${text}">${text}`), [], text);
    const found: string[] = [];
    for (const path of [...pathsWith([...hostileTexts, hostileText]), ...unknownPaths()]) {
      const { headers, body } = await ask(path);
      if (!String(headers['content-type']).startsWith('text/html')) continue;
      const outer = await find(body.toString());
      found.push(...outer.map(html => `${path}: ${html}`));
    }
    assert.deepEqual(found, []);
  });

  function requirePage(what: string, { headers }: Pick<Reply, 'headers'>): void {
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /default-src 'none'/, what);
    assert.match(policy, /frame-ancestors 'none'/, what);
    assert.match(policy, /form-action 'self'|sandbox/, what);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/, what);
    assert.equal(headers['x-content-type-options'], 'nosniff', what);
    assert.match(String(headers['referrer-policy']), /^(?:no-referrer|same-origin)$/, what);
    assert.equal(headers['cache-control'], 'no-store', what);
    for (const name of ['accept', 'cookie']) {
      assert.ok(String(headers.vary).toLowerCase().includes(name), `${what}: Vary ${name}`);
    }
    assert.equal(headers.etag, undefined, what);
    assert.equal(headers['last-modified'], undefined, what);
  }

  test('no page and no failure may be framed, kept or guessed', async () => {
    const missing = readRoutes.map(({ path }) => world.pathOf(path, 'missing'));
    for (const path of [...world.paths, ...missing, '/no/such/page']) {
      const reply = await ask(path);
      assert.ok(reply.status < 500, `${path}: ${reply.status}`);
      if (String(reply.headers['content-type']).startsWith('text/html')) requirePage(path, reply);
    }
  });

  test('HEAD answers as GET without a body', async () => {
    for (const path of world.paths) {
      const [head, get] = await Promise.all([ask(path, {}, 'HEAD'), ask(path)]);
      assert.equal(head.status, get.status, path);
      assert.equal(head.body.length, 0, path);
      assert.equal(head.headers['content-type'], get.headers['content-type'], path);
    }
  });

  test('other methods are refused with those that the address has', async () => {
    for (const { path, isShared } of pageRoutes) {
      if (isShared) continue;
      for (const method of ['PUT', 'DELETE', 'PATCH', 'PROPFIND']) {
        const at = world.pathOf(path, '1');
        const reply = await ask(at, {}, method);
        assert.equal(reply.status, 405, `${method} ${at}`);
        assert.match(String(reply.headers.allow), /GET|POST/, `${method} ${at}`);
      }
    }
  });

  test('no parameter sets a header or leads to another host', async () => {
    const targets = ['//evil.example', 'https://evil.example', '/\\evil.example', '\r\nx-evil: 1'];
    for (const { method, path } of pageRoutes) {
      for (const target of targets) {
        const at = `${world.pathOf(path, '1')}?${queryWith(target)}`;
        const reply = await call(world.sluice.url + at, {
          method: method.toUpperCase(),
          headers: {
            accept,
            ...(method === 'get'
              ? {}
              : {
                  'content-type': 'application/x-www-form-urlencoded',
                  origin: world.sluice.url,
                  'sec-fetch-site': 'same-origin',
                }),
          },
          ...(method === 'get' ? {} : { body: queryWith(target) }),
        });
        assert.ok(reply.status < 500, `${method} ${at}: ${reply.status} ${reply.body}`);
        assert.equal(reply.headers['x-evil'], undefined);
        const { location } = reply.headers;
        if (location !== undefined) {
          assert.equal(new URL(location, world.sluice.url).origin, world.sluice.url, `${at}`);
        }
      }
    }
  });

  test('a form that another site sends is refused', async () => {
    for (const { method, path } of pageRoutes) {
      if (method !== 'post') continue;
      const at = world.pathOf(path, '1');
      const reply = await call(world.sluice.url + at, {
        method: 'POST',
        headers: {
          accept,
          origin: 'https://evil.example',
          'content-type': 'application/x-www-form-urlencoded',
        },
        body: 'do=ask',
      });
      assert.equal(reply.status, 403, at);
      assert.equal(reply.headers['set-cookie'], undefined, at);
    }
  });

  test('strange addresses and cookies are answered, soon and without an error of the server', async () => {
    const queries = [
      '%00',
      'q=%00',
      'q=%ff%fe',
      'q=%c0%af%zz%',
      `q=${long}`,
      `image=${long}`,
      Array.from({ length: 1500 }, (_, at) => `p${at}=${at}`).join('&'),
      'package=a&'.repeat(1000),
      '__proto__=1&constructor=1&toString=1&hasOwnProperty=1',
      'page=-1&page=999999999999999999999&page=NaN&page=1e309&from=-1&line=-1&step=-1',
    ];
    const cookies = [
      '=',
      ';;;=;=',
      '\u00ff\u00fe=\u00ff',
      `session=${'x'.repeat(8000)}`,
      '__proto__=1',
    ];
    for (const { path } of readRoutes) {
      for (const segment of ['%00', '%ff', '%c0%af', '..%2f..%2fetc%2fpasswd', '__proto__', long]) {
        if (!path.includes('{')) continue;
        const at = path.replaceAll(/\{\w+\}/g, segment);
        const reply = await ask(at);
        assert.ok(reply.status >= 400 && reply.status < 500, `${at}: ${reply.status}`);
      }
      for (const query of queries) {
        const reply = await ask(`${world.pathOf(path)}?${query}`);
        assert.ok(reply.status < 500, `${path}?${query.slice(0, 60)}: ${reply.status}`);
        assert.ok(reply.ms < 5000, `${path}?${query.slice(0, 60)}: ${reply.ms} ms`);
      }
      for (const cookie of cookies) {
        const reply = await ask(world.pathOf(path), { cookie });
        assert.ok(reply.status < 500, `${path} with ${cookie.slice(0, 20)}: ${reply.status}`);
      }
    }
  });

  test('no page shows the headers that a proxy forwards', async () => {
    await using proxied = await startSluice({ config: { trustedProxies: 1 } });
    for (const forwarded of [
      '<script>alert(1)</script>',
      '203.0.113.7',
      ',,,',
      long.slice(0, 5000),
    ]) {
      for (const path of ['/', '/docs', '/no/such/page']) {
        const reply = await call(proxied.url + path, {
          headers: {
            accept,
            'x-forwarded-for': forwarded,
            'x-forwarded-host': 'evil.example',
            'x-forwarded-proto': 'javascript',
            forwarded: 'host=evil.example',
          },
        });
        assert.ok(reply.status < 500, `${path}: ${reply.status}`);
        assert.doesNotMatch(reply.body.toString(), /evil\.example|<script>/);
      }
    }
  });

  test('content of a registry is not a page, whatever a browser accepts', async () => {
    const token = world.pathOf('{token}');
    for (const path of ['/v2', '/v2/', `/v2/ct/${token}/hostile/manifests/1`, '/v2/<script>/x']) {
      const reply = await call(world.sluice.url + path, { headers: { accept: 'text/html' } });
      assert.doesNotMatch(String(reply.headers['content-type']), /html|script|css/, path);
      assert.match(String(reply.headers['content-security-policy']), /sandbox/, path);
      assert.equal(reply.headers['x-content-type-options'], 'nosniff', path);
    }
  });
});
