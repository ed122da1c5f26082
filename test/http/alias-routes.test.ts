/** Paths and names that clients of other services use, in addition to those of this one. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault, call, type Reply } from '../faults/http-client.ts';

const login = { authorization: `Basic ${btoa('admin:open sesame')}` };
const json = (reply: Reply) => JSON.parse(reply.body.toString());

suite('routes of other services', { concurrency: 2 }, () => {
  test('with the prefix wt, all of them are answered, and names begin with it', async () => {
    await using world = await startFaultWorld({ prefix: 'wt', reportVersion: 'api' });
    const { sluice, upstreams } = world;
    const get = (path: string, headers = {}) => call(`${sluice.url}${path}`, { headers });
    const image = upstreams.relay.image('team/app');
    const response = await sluice.request({ containerImage: image.name });
    assert.match(response.targetImage, /^127\.0\.0\.1:\d+\/wt\/[a-z2-7]+\/team\/app:latest$/);
    const pulled = await call(sluice.at(response.targetImage, 'manifests/latest'));
    assert.equal(pulled.headers['docker-content-digest'], image.digest);

    const view = await get(`/view/containers/${response.containerToken}`);
    assert.equal(view.status, 303);
    assert.equal(view.headers.location, `/v1alpha2/container/${response.containerToken}`);
    assert.match(String(view.headers['content-type']), /^application\/json/);
    const { served } = json(await get(String(view.headers.location)));
    assert.equal(served.image, response.targetImage);

    assert.deepEqual(json(await get('/health')), { status: 'UP' });
    const { serviceInfo } = json(await get('/service-info'));
    assert.equal(serviceInfo.version, '1.13.0+sluice.0.1.0');
    assert.equal(serviceInfo.apiLevel, '1.13.0');
    await assertMetrics(get);
    assert.ok(!sluice.output().includes(response.containerToken), 'the token is in the log');
  });

  test('a build is found by its page, in every notation of its number', async () => {
    await using world = await startFaultWorld();
    const key = '0123456789abcdef0123456789abcdef';
    const hostile = encodeURIComponent('//evil.example/"><script>');
    for (const [id, target] of [
      [`${key}_1`, `${key}_1`],
      [`${key}-12`, `${key}_12`],
      [hostile, hostile],
      ['%2e%2e%2fhealthz', '..%2Fhealthz'],
    ]) {
      const view = await call(`${world.sluice.url}/view/builds/${id}`);
      assert.equal(view.status, 303, id);
      assert.equal(view.headers.location, `/v1alpha1/builds/${target}`);
    }
    for (const id of [key, `bd-${key}`]) {
      const view = await call(`${world.sluice.url}/view/builds/${id}`);
      assertApiFault(view, 404, /without the number of the build: add it/);
    }
    // An address in other letters is another address.
    for (const path of ['/Service-Info', '/V1alpha1/inspect', '/V2/', '/Health']) {
      assert.equal((await call(`${world.sluice.url}${path}`)).status, 404, path);
    }
    const { serviceInfo } = json(await call(`${world.sluice.url}/service-info`));
    assert.deepEqual([serviceInfo.version, serviceInfo.apiLevel], ['0.1.0', '1.13.0']);
  });
});

async function assertMetrics(get: (path: string, headers: object) => Promise<Reply>) {
  for (const path of ['builds', 'pulls', 'mounted/pulls', 'fusion/pulls']) {
    const older = await get(`/v1alpha2/metrics/${path}`, login);
    const reply = await get(`/v1alpha3/metrics/${path}`, login);
    assert.equal(reply.status, 200, path);
    assert.deepEqual(json(reply), json(older));
    assert.equal((await get(`/v1alpha3/metrics/${path}`, {})).status, 401);
  }
  const query = 'date=2026-01-31&org=example.org';
  assert.deepEqual(json(await get(`/v1alpha3/metrics/builds?${query}`, login)), {
    metric: 'builds',
    count: 0,
    orgs: { 'example.org': 0 },
  });
  assert.deepEqual(json(await get(`/v1alpha2/metrics/builds?${query}`, login)), { count: 0 });
}
