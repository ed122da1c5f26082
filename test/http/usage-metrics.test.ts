import assert from 'node:assert/strict';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import { emptyLayer } from '../faults/scripted-upstream.ts';
import { startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const login = { authorization: `Basic ${btoa('admin:open sesame')}` };
const today = () => new Date().toISOString().slice(0, 10);

async function metric(world: Pick<FaultWorld, 'sluice'>, path: string): Promise<unknown> {
  const reply = await call(`${world.sluice.url}/v1alpha2/metrics/${path}`, { headers: login });
  assert.equal(reply.status, 200, reply.body.toString());
  return JSON.parse(reply.body.toString());
}

test('one pull counts once; a pull with a mounted file system counts in both metrics', async () => {
  await using world = await startFaultWorld({
    trustedProxies: 1,
    layers: { mounted: ['http://127.0.0.1:'] },
  });
  const { relay } = world.upstreams;
  const image = relay.image('team/app');
  relay.put('mount.tar.gz', 'application/gzip', emptyLayer);
  const pull = await world.serve(image);
  const mounted = await world.serve(image, {
    layers: [{ location: `http://${relay.host}/v2/mount.tar.gz` }],
  });
  const routes = ['manifests/latest', 'manifests/latest', `manifests/${image.digest}`];
  await pull('manifests/latest', { method: 'HEAD' });
  assert.deepEqual(await metric(world, 'pulls'), { metric: 'pulls', count: 0, orgs: {} });
  for (const address of ['192.0.2.1', '192.0.2.2']) {
    const headers = { 'x-forwarded-for': address };
    await pull('manifests/latest', { method: 'HEAD', headers });
    for (const route of routes) await pull(route, { headers });
    await pull(`blobs/${image.layers[0]?.digest}`, { headers });
    await pull('manifests/other', { headers });
  }
  await mounted('manifests/latest');
  await mounted('manifests/latest');
  const byArch = async (query: string) => {
    const at = `${world.sluice.url}/v1alpha3/metrics/pulls?${query}`;
    const reply = await call(at, { headers: login });
    return { status: reply.status, ...JSON.parse(reply.body.toString()) };
  };
  const none = { status: 200, metric: 'pulls', count: 0, orgs: {} };
  assert.deepEqual(await byArch('arch=arm64'), { ...none, arch: 'arm64' });
  const body = { containerImage: image.name, containerPlatform: 'linux/x86_64' };
  const { targetImage } = await world.sluice.request(body);
  await call(world.sluice.at(targetImage, 'manifests/latest'));
  for (const arch of ['amd64', 'x86-64']) {
    assert.deepEqual(await byArch(`arch=${arch}&org=`), { ...none, count: 1, arch: 'amd64' });
  }
  assert.equal((await byArch('')).count, 4);
  assert.deepEqual(await byArch('org=a.org&arch=aarch64'), {
    ...{ ...none, arch: 'arm64' },
    orgs: { 'a.org': 0 },
  });
  const refused = await byArch('arch=s390x');
  assert.match(
    refused.message,
    /^'arch' must be one of amd64, x86_64, x86-64, arm64, aarch64, arm/,
  );
  assert.equal(refused.status, 400);
  assert.deepEqual(await metric(world, 'pulls'), { metric: 'pulls', count: 4, orgs: {} });
  for (const path of ['mounted/pulls', 'fusion/pulls']) {
    assert.deepEqual(await metric(world, path), { metric: 'mounted', count: 1, orgs: {} });
  }
  assert.deepEqual(await metric(world, 'builds'), { metric: 'builds', count: 0, orgs: {} });

  await world.sluice.stop();
  assert.match(world.sluice.output(), /"msg":"stopped"/);
});

test('rules 1 to 6 of the metrics', async () => {
  await using directory = await makeTempDir('usage');
  const data = directory.join('data');
  const config = { accounts: { admin: 'open sesame' } };
  const first = await startSluice({ config, data });
  await first.stop();
  const database = new Database(directory.join('data', 'sluice.db'));
  const add = database.prepare(
    "INSERT INTO usage (metric, arch, day, org, count) VALUES (?, '', ?, ?, ?)",
  );
  for (const row of [
    ['pulls', '2026-01-01', '', 1],
    ['pulls', '2026-01-01', 'one.org', 10],
    ['pulls', '2026-01-02', 'one.org', 100],
    ['pulls', '2026-01-02', 'two.org', 1000],
    ['mounted', '2026-01-02', 'two.org', 7],
  ]) {
    add.run(...row);
  }
  database.close();

  await using sluice = await startSluice({ config, data });
  const world = { sluice };
  const orgs = { 'one.org': 110, 'two.org': 1000 };
  assert.deepEqual(await metric(world, 'pulls'), { metric: 'pulls', count: 1111, orgs });
  assert.deepEqual(await metric(world, 'pulls?date=&org='), { metric: 'pulls', count: 1111, orgs });
  const one = (await metric(world, 'pulls?org=One.ORG')) as { orgs: object };
  assert.deepEqual(one.orgs, { 'one.org': 110 });
  assert.deepEqual(await metric(world, 'pulls?date=2026-01-01'), {
    metric: 'pulls',
    count: 11,
    orgs: { 'one.org': 10 },
  });
  assert.deepEqual(await metric(world, 'pulls?org=one.org'), {
    metric: 'pulls',
    count: 110,
    orgs: { 'one.org': 110 },
  });
  assert.deepEqual(await metric(world, 'pulls?org=none.org'), {
    metric: 'pulls',
    count: 0,
    orgs: { 'none.org': 0 },
  });
  assert.deepEqual(await metric(world, 'pulls?org=one.org&date=2026-01-02'), { count: 100 });
  assert.deepEqual(await metric(world, 'mounted/pulls?org=two.org&date=2026-01-02'), { count: 7 });
  assert.deepEqual(await metric(world, `pulls?date=${today()}`), {
    metric: 'pulls',
    count: 0,
    orgs: {},
  });

  const url = `${sluice.url}/v1alpha2/metrics`;
  for (const date of ['2026-1-1', '20260101', '2026-02-30', 'today', "2026-01-01' OR 1=1"]) {
    const reply = await call(`${url}/pulls?date=${encodeURIComponent(date)}`, { headers: login });
    assertApiFault(reply, 400, /'date' must be a day of the form yyyy-mm-dd/);
  }
  for (const path of ['builds', 'pulls', 'mounted/pulls', 'fusion/pulls']) {
    for (const authorization of [
      undefined,
      'Basic Og==',
      `Basic ${btoa('admin:wrong')}`,
      `Basic ${btoa('nobody:open sesame')}`,
      `Basic ${btoa('admin')}`,
      'Bearer admin:open sesame',
      'Basic',
    ]) {
      const headers = authorization === undefined ? {} : { authorization };
      const reply = await call(`${url}/${path}`, { headers });
      assertApiFault(reply, 401, /requires the name and password of an account/);
      assert.match(reply.headers['www-authenticate'] ?? '', /^Basic realm="Sluice"/);
    }
  }
});
