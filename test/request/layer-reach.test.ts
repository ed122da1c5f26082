import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault } from '../faults/http-client.ts';
import { emptyLayer } from '../faults/scripted-upstream.ts';
import { newAccessToken } from '../world/platform-user.ts';

const administrator = { name: 'admin', password: 'open sesame' };

let world: FaultWorld;
let base: string;

before(async () => {
  world = await startFaultWorld({ layers: { privateHosts: [] } });
  base = world.upstreams.relay.image('team/app').name;
});

after(() => world[Symbol.asyncDispose]());

const ask = (location: string, more: object = {}) =>
  world.ask({ containerImage: base, containerConfig: { layers: [{ location }] }, ...more });

test('a layer URL cannot reach addresses that the operator opened for a registry', async () => {
  const { relay } = world.upstreams;
  relay.put('admin/secrets.tar.gz', 'application/gzip', emptyLayer);
  const port = relay.host.split(':').at(-1);
  for (const url of [
    `http://${relay.host}/v2/admin/secrets.tar.gz`,
    `http://localhost:${port}/v2/admin/secrets.tar.gz`,
    `http://${relay.host}/v2/`,
    `http://${relay.host}/v2/admin/blobs/../secrets.tar.gz`,
    `http://${relay.host}/api/v2.0/configurations`,
    `${world.sluice.url}/metrics`,
    `${world.sluice.url}/platform/users`,
  ]) {
    const seen = relay.requests.length;
    assertApiFault(await ask(url), 400, /is at a loopback, private or otherwise closed network/);
    const asked = relay.requests.slice(seen).filter(({ path }) => !path.includes('/team/app/'));
    assert.deepEqual(asked, [], `${url} was not requested`);
  }
});

test('a host that is listed without a port is open on all of its ports', async () => {
  await using open = await startFaultWorld({ layers: { privateHosts: ['127.0.0.1'] } });
  const { relay } = open.upstreams;
  relay.put('open/layer.tar.gz', 'application/gzip', emptyLayer);
  const layers = [{ location: `http://${relay.host}/v2/open/layer.tar.gz` }];
  const containerImage = relay.image('team/app').name;
  const reply = await open.ask({ containerImage, containerConfig: { layers } });
  assert.equal(reply.status, 200, reply.body.toString());
});

test('neither can a build context or a dry run', async () => {
  const { relay } = world.upstreams;
  const location = `http://${relay.host}/v2/admin/secrets.tar.gz`;
  const containerFile = Buffer.from(`FROM ${base}`).toString('base64');
  for (const dryRun of [true, false]) {
    const reply = await world.ask({ containerFile, buildContext: { location }, dryRun });
    assertApiFault(reply, 400, /buildContext could not be fetched .* closed network address/);
  }
});

test('a blob of a listed registry is a layer for callers who may pull it', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('team/layers', [emptyLayer]);
  const [layer] = image.layers;
  const reply = await ask(`http://${relay.host}/v2/team/layers/blobs/${layer?.digest}`);
  assert.equal(reply.status, 200, reply.body.toString());
});

test('a blob of a hosted repository requires the right of the caller each time', async () => {
  const { sluice } = world;
  const authorization = `Basic ${Buffer.from('admin:open sesame').toString('base64')}`;
  const { digest } = await push(emptyLayer);
  const location = `${sluice.url}/v2/private/layers/blobs/${digest}`;
  const layer = { location, gzipDigest: digest };
  const withLayer = (more: object = {}) =>
    world.ask({ containerImage: base, containerConfig: { layers: [layer] }, ...more });
  const anonymous = await withLayer();
  assertApiFault(anonymous, 403, /layers\[0\] could not be fetched/);

  const token = await newAccessToken(sluice, administrator, 'owner@example.org');
  const entered = await sluice.fetch('/platform/credentials', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({
      credentials: {
        provider: 'container-reg',
        keys: { registry: sluice.host, userName: 'admin', password: 'open sesame' },
      },
    }),
  });
  assert.equal(entered.status, 200, await entered.text());
  const owner = await withLayer({ platformAccessToken: token });
  assert.equal(owner.status, 200, owner.body.toString());
  // The blob is stored here now, and still requires the right.
  assertApiFault(await withLayer(), 403, /layers\[0\] could not be fetched/);

  async function push(bytes: Buffer) {
    const wanted = digestOf(bytes);
    const pushed = await sluice.fetch(`/v2/private/layers/blobs/uploads/?digest=${wanted}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/octet-stream' },
      body: new Uint8Array(bytes),
    });
    assert.equal(pushed.status, 201, await pushed.text());
    return { digest: wanted };
  }
});
