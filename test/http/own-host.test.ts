/** A server answers only to its own hosts: a name that anybody can point at it (DNS rebinding) gets nothing. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { networkInterfaces } from 'node:os';
import { after, before, test } from 'node:test';
import { WebSocket } from 'ws';
import { assertApiFault, assertRegistryFault, call, raw } from '../faults/http-client.ts';
import { admin, administered } from '../hosted/push-client.ts';
import { freePort } from '../world/free-port.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

const pairingToken = 'a long pairing token';
const portal = 'https://portal.example.org';
const outside = Object.values(networkInterfaces())
  .flatMap(list => list ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
let sluice: Sluice;
/** Listens on all addresses. */
let open: Sluice;

before(async () => {
  const common = { ...administered, url: 'https://images.example.com' };
  sluice = await startSluice({
    config: {
      ...common,
      hosts: ['sluice', 'Sluice.internal', '192.0.2.7', '10.1.0.0/16', '2001:db8::/32'],
      cors: { origins: [portal] },
      platform: { pairingToken, allow: ['platform.example.com'] },
    },
  });
  const port = await freePort();
  open = await startSluice({ config: common, port, env: { SLUICE_LISTEN: `0.0.0.0:${port}` } });
});

after(() => Promise.all([sluice.stop(), open.stop()]));

const paths = ['/', '/healthz', '/readyz', '/metrics', '/service-info', '/docs', '/nowhere'];
const get = (host: string, path: string, to = sluice, headers = {}) =>
  call(`http://127.0.0.1:${to.port}${path}`, { headers: { ...headers, host } });
const foreignHosts = [
  'evil.example',
  'evil.example:9090',
  'images.example.com.evil.example',
  'evil.images.example.com',
  'localhost.evil.example',
  'xn--localhost-',
  '2130706433',
  '0x7f.1',
  '127.1',
  '203.0.113.9',
  '[2001:db9::1]:443',
  '[::ffff:203.0.113.9]',
];

test('a host that is not its own gets 421, in the dialect of the path, before everything else', async () => {
  for (const host of foreignHosts) {
    for (const path of paths) {
      const reply = await get(host, path, sluice, { ...admin, accept: 'text/html' });
      assertApiFault(reply, 421, /does not answer to the host/);
      assert.equal(reply.headers['x-content-type-options'], 'nosniff');
    }
    for (const path of ['/v2/', '/v2/public/app/manifests/latest', '/v2/ct/token/a/blobs/x']) {
      assertRegistryFault(await get(host, path, sluice, admin), {
        ...{ status: 421, code: 'DENIED' },
        message: /does not answer to the host .*SLUICE_HOSTS/,
      });
    }
  }
  const preflight = await call(`${sluice.url}/service-info`, {
    method: 'OPTIONS',
    headers: { host: 'evil.example', origin: portal, 'access-control-request-method': 'POST' },
  });
  assertApiFault(preflight, 421, /evil\.example/);
  assert.equal(preflight.headers['access-control-allow-origin'], undefined);
});

test('its own hosts are answered, with any port', async () => {
  for (const name of [
    'images.example.com',
    'IMAGES.example.com.',
    'localhost',
    '127.0.0.1',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    'sluice',
    'sluice.internal',
    '192.0.2.7',
    '10.1.2.3',
    '[2001:db8:0::1]',
    '[::ffff:10.1.2.3]',
  ]) {
    for (const host of [name, `${name}:443`, `${name}:1`]) {
      assert.equal((await get(host, '/healthz')).status, 200, host);
    }
  }
});

test('all addresses of the machine are its own only if it listens on all', async () => {
  assert.ok(outside, 'this machine has an address beside the loopback');
  assertApiFault(await get(outside, '/healthz'), 421, /does not answer/);
  assert.equal((await get(`${outside}:9`, '/healthz', open)).status, 200);
  assert.equal((await call(`http://${outside}:${open.port}/healthz`)).status, 200);
  // One that no list of addresses has.
  assert.equal((await call(`http://127.9.8.7:${open.port}/healthz`)).status, 200);
  assertApiFault(await get('203.0.113.9', '/healthz', open), 421, /does not answer/);
});

const send = (head: string) => raw(sluice.port, `${head}\r\nconnection: close\r\n\r\n`);

test('a missing, malformed or repeated Host is 400', async () => {
  assert.match(
    await send('GET /healthz HTTP/1.1\r\na: b'),
    /^HTTP\/1\.1 400 [\s\S]*no Host header/,
  );
  const own = `host: ${sluice.host}`;
  for (const second of [own, 'Host: evil.example']) {
    const text = await send(`GET /healthz HTTP/1.1\r\n${own}\r\n${second}`);
    assert.match(text, /^HTTP\/1\.1 400 [\s\S]*more than one Host/);
  }
  for (const host of [
    '',
    'user@localhost',
    'localhost:x',
    'localhost:123456',
    'local host',
    '::1',
    '[::1',
    '[localhost]',
    '[1.2.3.4]',
    'localhost/',
    'http://localhost',
    '[fe80::1%25lo]',
    'a'.repeat(300),
  ]) {
    const text = await send(`GET /v2/ HTTP/1.1\r\nhost: ${host}`);
    assert.match(
      text,
      /^HTTP\/1\.1 400 [\s\S]*UNSUPPORTED[\s\S]*not a host with an optional port/,
      host,
    );
  }
});

test('HTTP/1.0 needs no Host, and one that it sends counts', async () => {
  assert.match(await send('GET /healthz HTTP/1.0\r\na: b'), /^HTTP\/1\.1 200 /);
  assert.match(await send('GET /healthz HTTP/1.0\r\nhost: evil.example'), /^HTTP\/1\.1 421 /);
});

test('the authority of a target in absolute form counts instead of Host', async () => {
  const own = `http://${sluice.host}/healthz`;
  const foreign = 'http://evil.example/healthz';
  assert.match(await send(`GET ${own} HTTP/1.1\r\nhost: evil.example`), /^HTTP\/1\.1 200 /);
  const response = await send(`GET ${foreign} HTTP/1.1\r\nhost: ${sluice.host}`);
  assert.match(response, /^HTTP\/1\.1 421 /);
  assert.match(await send(`GET ${foreign} HTTP/1.0\r\na: b`), /^HTTP\/1\.1 421 /);
});

test('other headers that name a host change nothing', async () => {
  const headers = { 'x-forwarded-host': 'localhost', forwarded: 'host=localhost' };
  assertApiFault(await get('evil.example', '/metrics', sluice, headers), 421, /evil\.example/);
  const misled = { 'x-forwarded-host': 'evil.example' };
  assert.equal((await get('sluice', '/metrics', sluice, misled)).status, 200);
});

test('a platform opens a WebSocket under its own hosts only', async () => {
  const endpoint = encodeURIComponent('https://platform.example.com');
  const path = `/pairing/tower/token/${encodeURIComponent(pairingToken)}?endpoint=${endpoint}`;
  const statusOf = async (headers: Record<string, string>): Promise<number> => {
    const socket = new WebSocket(`ws://${sluice.host}${path}`, { headers });
    const status = await Promise.race([
      once(socket, 'open').then(() => 101),
      once(socket, 'unexpected-response').then(([, response]) => response.statusCode as number),
    ]);
    socket.on('error', () => {});
    socket.terminate();
    return status;
  };
  for (const host of foreignHosts) {
    assert.equal(await statusOf({ host }), 421, host);
    assert.equal(await statusOf({ host, origin: `http://${host}` }), 421, host);
  }
  for (const host of ['sluice:80', 'images.example.com', 'localhost']) {
    assert.equal(await statusOf({ host, origin: `https://${host}` }), 101, host);
  }
});
