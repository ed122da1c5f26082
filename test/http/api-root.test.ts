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
