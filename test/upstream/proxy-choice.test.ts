import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readProxies } from '../../src/upstream/transport/proxy.ts';
import { createRouteTo } from '../../src/upstream/transport/proxy-choice.ts';

const url = new URL('https://registry.example.com/v2/');

/** Routes through a proxy. Each look-up gives the next result. */
function routes(...results: readonly (string | Error)[]) {
  const left = [...results];
  const addressOf = async () => {
    const result = left.shift();
    if (typeof result === 'string') return result;
    throw result;
  };
  const proxyFor = readProxies({ HTTPS_PROXY: 'http://proxy:3128' });
  const routeTo = createRouteTo(proxyFor, () => false, false, addressOf);
  const target = async () => {
    const way = await routeTo(url);
    return way?.kind === 'tunnel' ? way.target : undefined;
  };
  return { target, left };
}

test('behind a proxy, a name that was not found is looked up again', async () => {
  const { target } = routes(new Error('EAI_AGAIN'), '203.0.113.7');
  await assert.rejects(target(), /cannot resolve 'registry\.example\.com'/);
  assert.equal(await target(), '203.0.113.7:443');
});

test('behind a proxy, requests share the address of a name', async () => {
  const { target, left } = routes('203.0.113.7', '203.0.113.8');
  assert.deepEqual(await Promise.all([target(), target()]), ['203.0.113.7:443', '203.0.113.7:443']);
  assert.equal(await target(), '203.0.113.7:443');
  assert.equal(left.length, 1);
});
