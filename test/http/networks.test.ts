/** A client with one IPv6 address has many: limits count them as one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFaultWorld } from '../faults/fault-world.ts';
import { call } from '../faults/http-client.ts';

test('requests, pulls and logins of an IPv6 network count together, those of others do not', async () => {
  const rate = '3/hour';
  await using world = await startFaultWorld({
    trustedProxies: 1,
    limits: { requests: { anonymous: rate }, pulls: { anonymous: rate }, logins: rate },
  });
  const { sluice, upstreams } = world;
  const image = upstreams.relay.image('team/app');
  const request = (address: string) =>
    call(`${sluice.url}/v1alpha2/container`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
      body: JSON.stringify({ containerImage: image.name }),
    });
  const from = async (address: string): Promise<readonly number[]> => {
    const headers = { 'x-forwarded-for': address };
    const asked = await request(address);
    const made = asked.status === 200 ? asked : await request('198.51.100.1');
    const { targetImage } = JSON.parse(made.body.toString());
    const pulled = await call(sluice.at(targetImage, 'manifests/latest'), { headers });
    const failed = await call(`${sluice.url}/platform/users`, {
      headers: { ...headers, authorization: `Basic ${btoa('admin:wrong')}` },
    });
    return [asked.status, pulled.status, failed.status];
  };
  for (const address of ['2001:db8:1:1::1', '2001:db8:1:1:2::', '[2001:DB8:1:1::3]:443']) {
    assert.deepEqual(await from(address), [200, 200, 401], address);
  }
  assert.deepEqual(await from('2001:db8:1:1:ffff::4'), [429, 429, 429]);
  assert.deepEqual(await from('2001:db8:1:2::1'), [200, 200, 401], 'another network');
  for (const address of ['192.0.2.1', '::ffff:192.0.2.1', '::ffff:c000:201']) {
    assert.deepEqual(await from(address), [200, 200, 401], address);
  }
  assert.deepEqual(await from('192.0.2.1'), [429, 429, 429]);
  assert.deepEqual(await from('::ffff:192.0.2.2'), [200, 200, 401], 'another address of IPv4');
});
