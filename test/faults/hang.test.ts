import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { assertLogged, type FaultWorld, shortMs, startFaultWorld } from './fault-world.ts';
import { assertApiFault, assertRegistryFault } from './http-client.ts';

// Far below the default timeout of the server.
const inTimeMs = 10_000;

let world: FaultWorld;
const faultIds: string[] = [];

before(async () => {
  world = await startFaultWorld();
});

after(async () => {
  assertLogged(await world.log(), faultIds);
  await world[Symbol.asyncDispose]();
});

test('an unanswered manifest request ends in time', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('hang/manifest');
  relay.on('/v2/hang/manifest/manifests/', () => {});
  const reply = await world.ask({ containerImage: image.name });
  faultIds.push(assertApiFault(reply, 504, /did not answer in time/));
  assert.ok(reply.ms >= shortMs.headers && reply.ms < inTimeMs, `${reply.ms} ms`);
  assert.equal(relay.count('HEAD', '/v2/hang/manifest/'), 1, 'a time-out is not tried again');
});

for (const mode of ['relay', 'cache', 'redirect'] as const) {
  test(`an unanswered blob request ends in time (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const image = upstream.image('hang/blob');
    const pull = await world.serve(image);
    const [layer] = image.layers;
    upstream.on('/v2/hang/blob/blobs/', () => {});
    const reply = await pull(`blobs/${layer?.digest}`);
    faultIds.push(
      assertRegistryFault(reply, {
        status: 504,
        code: 'UNAVAILABLE',
        message: /did not answer in time/,
      }),
    );
    assert.ok(reply.ms >= shortMs.headers && reply.ms < inTimeMs, `${reply.ms} ms`);
    await eventually('the connections are closed', () => upstream.connections() <= 1);
    upstream.on('/v2/hang/blob/blobs/', (_request, _response, serve) => serve());
    assertBytes((await pull(`blobs/${layer?.digest}`)).body, layer?.bytes);
  });
}

test('a manifest that stops midway is aborted in time', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('hang/body');
  relay.on('GET /v2/hang/body/manifests/', (_request, response) => {
    response.writeHead(200, { 'content-length': image.manifest.length });
    response.write(image.manifest.subarray(0, 20));
  });
  const reply = await world.ask({ containerImage: image.name });
  faultIds.push(assertApiFault(reply, 504, /stopped sending/));
  assert.ok(reply.ms < inTimeMs, `${reply.ms} ms`);
});
