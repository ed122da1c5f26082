import assert from 'node:assert/strict';
import { test } from 'node:test';
import { call } from '../faults/http-client.ts';
import { startSluice } from '../world/sluice.ts';

test('without accounts the API root does not request a login', async () => {
  await using sluice = await startSluice();
  for (const authorization of ['', 'Basic Og==', 'Bearer nonsense', 'Basic YTpi']) {
    for (const path of ['/v2/', '/v2']) {
      const reply = await call(sluice.url + path, { headers: { authorization } });
      assert.equal(reply.status, 200);
      assert.equal(reply.body.toString(), '{}');
      assert.equal(reply.headers['content-type'], 'application/json');
      const head = await call(sluice.url + path, { method: 'HEAD' });
      assert.equal(head.headers['content-length'], '2');
    }
  }
});

test('crawlers, browsers that want an icon, and readers of the API find an answer', async () => {
  await using sluice = await startSluice();
  const robots = await call(`${sluice.url}/robots.txt`);
  assert.equal(robots.headers['content-type'], 'text/plain; charset=utf-8');
  assert.equal(robots.body.toString(), 'User-agent: *\nDisallow: /\n');
  const icon = await call(`${sluice.url}/favicon.ico`);
  assert.equal(icon.status, 303);
  const logo = await call(`${sluice.url}${icon.headers.location}`);
  assert.equal(logo.headers['content-type'], 'image/svg+xml');
  for (const path of ['/openapi', '/openapi/']) {
    const moved = await call(sluice.url + path);
    assert.deepEqual([moved.status, moved.headers.location], [303, '/openapi.json'], path);
  }
});
