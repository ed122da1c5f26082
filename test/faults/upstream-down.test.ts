import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertBytes } from '../world/assert-bytes.ts';
import { assertLogged, startFaultWorld } from './fault-world.ts';
import { assertRegistryFault } from './http-client.ts';
import { emptyLayer } from './scripted-upstream.ts';

test('stored content is served while the upstream is down, other requests get 502', async () => {
  await using world = await startFaultWorld({ upstream: {} });
  const { relay, cache } = world.upstreams;
  const config = {
    env: ['A=1'],
    layers: [{ location: `data:${emptyLayer.toString('base64')}` }],
  };
  const image = relay.image('down/relayed');
  const pull = await world.serve(image, config);
  const warm = await pull('manifests/latest');
  const cached = cache.image('down/cached');
  const pullCached = await world.serve(cached);
  assert.equal((await pullCached(`blobs/${cached.layers[0]?.digest}`)).status, 200);

  await Promise.all([relay.stop(), cache.stop()]);
  const manifest = await pull('manifests/latest');
  assert.equal(manifest.status, 200);
  assertBytes(manifest.body, warm.body);
  const { config: served, layers } = JSON.parse(manifest.body.toString());
  const text = (await pull(`blobs/${served.digest}`)).body.toString();
  assert.ok(JSON.parse(text).config.Env.includes('A=1'));
  assertBytes((await pull(`blobs/${layers.at(-1).digest}`)).body, emptyLayer);
  assertBytes(
    (await pullCached(`blobs/${cached.layers[0]?.digest}`)).body,
    cached.layers[0]?.bytes,
    'a cached blob is here as well',
  );

  const missing = await pull(`blobs/${image.layers[0]?.digest}`);
  const id = assertRegistryFault(missing, {
    status: 502,
    code: 'UNAVAILABLE',
    message: new RegExp(`The registry ${relay.host} refused the connection`),
  });
  assert.equal((await world.sluice.fetch('/healthz')).status, 200);
  assertLogged(await world.log(), [id]);
});
