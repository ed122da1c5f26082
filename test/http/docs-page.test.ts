/** The pages of the APIs: everything they load comes from the server, and their policy allows it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { call } from '../faults/http-client.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

let sluice: Sluice;

before(async () => {
  sluice = await startSluice();
});

after(() => sluice.stop());

for (const [path, document] of [
  ['/docs', '/openapi.json'],
  ['/docs/platform', '/platform/openapi.json'],
] as const) {
  test(`${path} shows ${document} with its own scripts and styles`, async () => {
    const reply = await call(sluice.url + path);
    assert.equal(reply.status, 200);
    assert.equal(reply.headers['x-content-type-options'], 'nosniff');
    const html = reply.body.toString();
    assert.ok(html.includes(`data-url="${document}"`));
    assert.equal((await call(sluice.url + document)).status, 200);
    const policy = String(reply.headers['content-security-policy']);
    assert.match(policy, /^default-src 'none'; /);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    assert.doesNotMatch(html, / style=| on\w+=|<script>|https?:\/\//);
    const [, nonce = ''] = /script-src 'nonce-([\w-]{22})'/.exec(policy) ?? [];
    assert.ok(policy.includes(`style-src 'nonce-${nonce}'`), policy);
    const tags = [
      ...html.matchAll(/<(?:script src|link rel="stylesheet" href)="([^"]+)"([^>]*)>/g),
    ];
    assert.equal(tags.length, 4);
    for (const [, file = '', rest] of tags) {
      assert.equal(rest?.trim(), `nonce="${nonce}"`, file);
      const plain = await call(sluice.url + file);
      const packed = await call(sluice.url + file, { headers: { 'accept-encoding': 'gzip' } });
      assert.match(
        String(plain.headers['content-type']),
        /^text\/(?:javascript|css); charset=utf-8$/,
      );
      assert.match(String(plain.headers['cache-control']), /immutable/);
      assert.equal(packed.headers['content-encoding'], 'gzip');
      assert.deepEqual(gunzipSync(packed.body), plain.body);
    }
  });
}

test('every answer has another nonce, and a file of another version is 404', async () => {
  const policies = await Promise.all([1, 2].map(() => call(`${sluice.url}/docs`)));
  const [one, other] = policies.map(({ headers }) => headers['content-security-policy']);
  assert.notEqual(one, other);
  const old = await call(`${sluice.url}/docs/assets/start-0000000000000000.js`);
  assert.equal(old.status, 404);
  assert.match(old.body.toString(), /reload the page/);
});
