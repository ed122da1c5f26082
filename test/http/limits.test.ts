import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../src/server/config/load.ts';
import { postJson, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault, assertRegistryFault, call } from '../faults/http-client.ts';
import { newAccessToken } from '../world/platform-user.ts';

const administrator = { name: 'admin', password: 'secret' };

test('pulls are limited by the manifest, not by the blob, and each counts once', async () => {
  await using world = await startFaultWorld({
    accounts: { admin: 'secret' },
    trustedProxies: 1,
    limits: { pulls: { anonymous: '3/hour', authenticated: '5/hour' } },
  });
  const image = world.upstreams.relay.image('team/app');
  const from = (address: string) => ({ 'x-forwarded-for': address });
  const make = async (body: object = {}) => {
    const { targetImage } = await world.sluice.request({ containerImage: image.name, ...body });
    return (route: string, headers: Record<string, string>, method = 'GET') =>
      call(world.sluice.at(targetImage, route), { method, headers });
  };
  const left = (reply: Awaited<ReturnType<typeof call>>) => reply.headers['ratelimit-remaining'];

  // The sequence of docker: HEAD and GET, then by digest; that of cosign: three GETs.
  const first = await make();
  const head = await first('manifests/latest', from('192.0.2.1'), 'HEAD');
  assert.equal(head.status, 200);
  assert.equal(head.headers['ratelimit-limit'], '3');
  assert.equal(left(head), '3', 'looking costs nothing');
  for (const route of ['latest', image.digest, 'latest', 'latest']) {
    const reply = await first(`manifests/${route}`, from('192.0.2.1'));
    assert.equal(reply.status, 200);
    assert.equal(left(reply), '2', 'one pull is counted');
    assert.ok(Number(reply.headers['ratelimit-reset']) > 1000);
  }

  for (const remaining of ['1', '0']) {
    const pull = await make();
    assert.equal(left(await pull('manifests/latest', from('192.0.2.1'))), remaining);
  }
  const over = await make();
  for (const method of ['GET', 'HEAD']) {
    const refused = await over('manifests/latest', from('192.0.2.1'), method);
    assert.equal(refused.status, 429);
    const wait = Number(refused.headers['retry-after']);
    assert.ok(wait > 3500 && wait <= 3600, `${wait} s until one of three an hour is free`);
    assert.equal(refused.headers['ratelimit-reset'], String(wait));
    assert.equal(left(refused), '0');
    if (method === 'HEAD') continue;
    assertRegistryFault(refused, {
      status: 429,
      code: 'TOOMANYREQUESTS',
      message:
        /limit of 3 pulls per hour is reached: try again in \d+ s, or send a platform access token/,
    });
  }

  const blob = await over(`blobs/${image.layers[0]?.digest}`, from('192.0.2.1'));
  assert.equal(blob.status, 200, 'blobs are never limited');
  assert.equal(
    (await first('manifests/latest', from('192.0.2.1'))).status,
    200,
    'nor a running pull',
  );
  assert.equal((await over('manifests/latest', from('192.0.2.2'))).status, 200, 'another client');
  assert.equal((await over('manifests/latest', from('192.0.2.1, 192.0.2.3'))).status, 200);
  assert.equal((await over('manifests/latest', from('192.0.2.3, 192.0.2.1'))).status, 429);
  assert.equal((await over('manifests/latest', from('192.0.2.1:4711'))).status, 429, 'with a port');

  const token = await newAccessToken(world.sluice, administrator, 'somebody@example.org');
  const known = await make({ platformAccessToken: token });
  const reply = await known('manifests/latest', from('192.0.2.1'));
  assert.equal(reply.status, 200, 'an access token has its own limit');
  assert.equal(reply.headers['ratelimit-limit'], '5');
  for (let taken = 1; taken < 5; taken += 1) {
    const pull = await make({ platformAccessToken: token });
    assert.equal((await pull('manifests/latest', from('192.0.2.1'))).status, 200);
  }
  const last = await make({ platformAccessToken: token });
  const denied = await last('manifests/latest', from('192.0.2.1'));
  const message = /limit of 5 pulls per hour is reached: try again in \d+ s, or ask the operator/;
  assertRegistryFault(denied, { status: 429, code: 'TOOMANYREQUESTS', message });
});

test('simultaneous pulls do not exceed the limit, however often they are repeated', async () => {
  await using world = await startFaultWorld({ limits: { pulls: { anonymous: '5/day' } } });
  const image = world.upstreams.relay.image('team/app');
  const urls = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const { targetImage } = await world.sluice.request({ containerImage: image.name });
      return world.sluice.at(targetImage, 'manifests/latest');
    }),
  );
  const passed = new Set<string>();
  for (let round = 0; round < 3; round += 1) {
    const replies = await Promise.all(urls.map(async url => ({ url, reply: await call(url) })));
    for (const { url, reply } of replies) if (reply.status === 200) passed.add(url);
  }
  assert.equal(passed.size, 5);
});

test('container requests can be limited', async () => {
  await using world = await startFaultWorld({
    accounts: { admin: 'secret' },
    limits: { requests: { anonymous: '2/minute', authenticated: '1/minute' } },
  });
  const { name } = world.upstreams.relay.image('team/app');
  for (const remaining of ['1', '0']) {
    const reply = await world.ask({ containerImage: name });
    assert.equal(reply.status, 200);
    assert.equal(reply.headers['ratelimit-remaining'], remaining);
  }
  const refused = await postJson(`${world.sluice.url}/container-token`, { containerImage: name });
  assertApiFault(refused, 429, /limit of 2 container requests per minute is reached/);
  assert.ok(Number(refused.headers['retry-after']) <= 60);
  const token = await newAccessToken(world.sluice, administrator, 'somebody@example.org');
  const own = await world.ask({ containerImage: name, towerAccessToken: token });
  assert.equal(own.status, 200);
  const inspect = `${world.sluice.url}/v1alpha1/inspect`;
  const looked = await postJson(inspect, { containerImage: name });
  assertApiFault(looked, 429, /limit of 2 container requests per minute is reached/);
});

test('container requests are limited by default, and a head node with a token can send thousands at once', () => {
  const { requests } = loadConfig({}).config.limits;
  assert.deepEqual(requests.anonymous, { count: 1000, seconds: 3600 });
  assert.deepEqual(requests.authenticated, { count: 3000, seconds: 60 });
});

test('failures of the service are not counted, failures of the request are', async () => {
  await using world = await startFaultWorld({
    buildkit: ['off'],
    limits: { requests: { anonymous: '2/hour' } },
  });
  const { name } = world.upstreams.relay.image('team/app');
  const containerFile = Buffer.from('FROM scratch').toString('base64');
  for (let time = 0; time < 3; time += 1) {
    const reply = await world.ask({ containerFile });
    assertApiFault(reply, 501, /This server has no builder: ask its operator/);
    assert.equal(reply.headers['ratelimit-remaining'], '2');
  }
  // Clients repeat what is answered with 502, 503 or 504, and do not show the message.
  const unknown = await world.ask({ containerImage: 'nosuchregistry.invalid/team/app' });
  assertApiFault(unknown, 400, /The registry nosuchregistry\.invalid has no address: check/);
  assert.equal((await world.ask({ containerImage: name })).status, 200);
  assert.equal((await world.ask({ containerImage: name })).status, 429);
});
