/** Routes that change something refuse requests of pages of another origin. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { WebSocket } from 'ws';
import { assertApiFault, assertRegistryFault, call } from '../faults/http-client.ts';
import { admin, administered, Repository } from '../hosted/push-client.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

const pairingToken = 'a long pairing token';
let sluice: Sluice;

before(async () => {
  sluice = await startSluice({
    config: {
      ...administered,
      url: 'https://images.example.com',
      platform: { pairingToken, allow: ['platform.example.com'] },
    },
  });
});

after(() => sluice.stop());

const json = { 'content-type': 'application/json' };
const post = (headers: Record<string, string>, body = '{}') =>
  call(`${sluice.url}/v1alpha2/container`, { method: 'POST', headers, body });

test('a body without a type, or with a form type, is not read as JSON', async () => {
  const types = [undefined, '', 'text/plain', 'application/x-www-form-urlencoded', 'text/json'];
  for (const path of [
    '/v1alpha2/container',
    '/container-token',
    '/v1alpha1/inspect',
    '/v1alpha2/validate-creds',
    '/platform/tokens',
  ]) {
    for (const type of [...types, 'multipart/form-data; boundary=application/json']) {
      const headers = { ...admin, ...(type === undefined ? {} : { 'content-type': type }) };
      const reply = await call(sluice.url + path, { method: 'POST', headers, body: '{}' });
      assertApiFault(reply, 415, /send Content-Type: application\/json/);
    }
  }
  for (const type of [
    'application/json',
    'Application/JSON; charset=utf-8',
    'application/a+json',
  ]) {
    assertApiFault(await post({ 'content-type': type }), 400, /containerFile/);
  }
});

test('a builder gets images and lock files, and nothing else', async () => {
  const statusOf = async (path: string, agent: string) =>
    (await call(sluice.url + path, { headers: { 'user-agent': agent } })).status;
  for (const agent of ['buildkit/v0.34.2', 'git/2.53.0']) {
    for (const path of [
      '/',
      '/metrics',
      '/healthz',
      '/view/builds',
      '/v2x',
      '//metrics',
      '/v1alpha1/builds/0_1/logs',
    ]) {
      const reply = await call(sluice.url + path, { headers: { 'user-agent': agent } });
      assertApiFault(reply, 403, /Builders get images and lock files/);
    }
    assert.equal(await statusOf('/v2/', agent), 401);
    assert.equal(await statusOf('/v2/public/none/manifests/latest', agent), 404);
    for (const path of ['condalock', 'lock', 'lock?format=explicit']) {
      assert.equal(await statusOf(`/v1alpha1/builds/0_1/${path}`, agent), 404, path);
    }
  }
  assert.equal(await statusOf('/metrics', 'Prometheus/3.0'), 200);
});

const foreign: readonly Record<string, string>[] = [
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
  { 'sec-fetch-site': 'cross-site', origin: 'https://images.example.com' },
  { origin: 'https://evil.example' },
  { origin: 'http://images.example.com' },
  { origin: 'https://images.example.com:8443' },
  { origin: 'null' },
  { origin: 'nonsense' },
];

test('requests of foreign pages are refused, with a body and without', async () => {
  for (const headers of foreign) {
    assertApiFault(await post({ ...json, ...headers }), 403, /a page of another origin/i);
    for (const [method, path] of [
      ['DELETE', '/container-token/x'],
      ['DELETE', '/v1alpha1/builds/x'],
      ['DELETE', '/platform/tokens/1'],
      ['POST', '/platform/users'],
      ['POST', '/nowhere'],
      ['PATCH', '/v1alpha2/container'],
    ] as const) {
      const reply = await call(sluice.url + path, { method, headers: { ...admin, ...headers } });
      assertApiFault(reply, 403, /a page of another origin/i);
    }
    const pushing = new Repository(sluice, 'team/app', { ...admin, ...headers });
    for (const reply of [
      await pushing.send('POST', 'blobs/uploads/'),
      await pushing.send('PUT', 'manifests/1', Buffer.from('{}')),
      await pushing.send('DELETE', 'manifests/1'),
    ]) {
      assertRegistryFault(reply, {
        status: 403,
        code: 'DENIED',
        message: /page of another origin/,
      });
    }
  }
});

test('reads are allowed, and so are pages of the server itself and clients that are not browsers', async () => {
  for (const headers of foreign) {
    assert.equal((await call(`${sluice.url}/healthz`, { headers })).status, 200);
  }
  for (const headers of [
    {},
    { 'sec-fetch-site': 'none' },
    { origin: 'https://images.example.com', 'sec-fetch-site': 'same-origin' },
    { origin: sluice.url, host: sluice.host },
    { origin: `http://localhost:${sluice.port}`, host: `localhost:${sluice.port}` },
    { origin: 'http://[::1]:9090', host: '[::1]:9090' },
  ]) {
    assertApiFault(await post({ ...json, ...headers }), 400, /containerFile/);
  }
});

test('a foreign page cannot open a WebSocket; a platform can', async () => {
  const endpoint = encodeURIComponent('https://platform.example.com');
  const url = `ws://${sluice.host}/pairing/tower/token/${encodeURIComponent(pairingToken)}?endpoint=${endpoint}`;
  const open = async (headers: Record<string, string>): Promise<number> => {
    const socket = new WebSocket(url, { headers });
    const status = await Promise.race([
      once(socket, 'open').then(() => 101),
      once(socket, 'unexpected-response').then(([, response]) => response.statusCode as number),
    ]);
    socket.on('error', () => {});
    socket.terminate();
    return status;
  };
  for (const headers of foreign) {
    assert.equal(await open(headers), 403, JSON.stringify(headers));
  }
  assert.equal(await open({}), 101);
  assert.equal(await open({ origin: 'https://images.example.com' }), 101);
  assert.equal(await open({ origin: `http://${sluice.host}` }), 101);
});
