import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFaultWorld } from '../faults/fault-world.ts';
import { assertRegistryFault } from '../faults/http-client.ts';
import { eventually } from '../world/eventually.ts';

test('expired and unknown tokens are distinguished', async () => {
  await using world = await startFaultWorld({ tokenLife: '4s' });
  const image = world.upstreams.relay.image('team/app');
  const pull = await world.serve(image);
  assert.equal((await pull('manifests/latest')).status, 200);
  await eventually('it expires', async () => (await pull('manifests/latest')).status === 404);
  for (const route of ['manifests/latest', `blobs/${image.configDigest}`, 'tags/list']) {
    assertRegistryFault(await pull(route), {
      status: 404,
      code: 'NAME_UNKNOWN',
      message: /token for team\/app expired at 20\d\d-.*Z: make a new container request/,
    });
  }
});
