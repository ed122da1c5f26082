/** Requirements of HTTP: methods, codings, pages of other origins, clients that close their side first. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { loadConfig } from '../../src/server/config/load.ts';
import { type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault, assertRegistryFault, call, type Reply } from '../faults/http-client.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { admin, Repository } from '../hosted/push-client.ts';

const portal = 'https://portal.example.org';
let world: FaultWorld;

before(async () => {
  world = await startFaultWorld({
    accounts: { admin: 'secret' },
    cors: { origins: [portal] },
    limits: { bodyBytes: '64 KiB' },
  });
});
after(() => world[Symbol.asyncDispose]());

const send = (method: string, path: string, headers = {}, body?: string | Buffer) =>
  call(world.sluice.url + path, { method, headers, ...(body === undefined ? {} : { body }) });

test('an unsupported method is 405, with the supported ones', async () => {
  const cases = [
    ['GET', '/v1alpha2/container', 'POST'],
    ['DELETE', '/service-info', 'HEAD, GET'],
    ['POST', '/container-token/abc', 'HEAD, GET, DELETE'],
    ['OPTIONS', '/v1alpha1/inspect', 'POST'],
    ['PUT', '/v2/', 'GET, HEAD'],
    ['POST', '/v2/ct/abc/team/app/manifests/latest', 'GET, HEAD'],
    ['POST', '/v2/team/app/manifests/latest', 'GET, HEAD, PUT, DELETE'],
    ['GET', '/v2/team/app/blobs/uploads/', 'POST'],
    ['POST', '/v2/team/app/blobs/uploads/abc', 'GET, PATCH, PUT, DELETE'],
  ] as const;
  for (const [method, path, allow] of cases) {
    const reply = await send(method, path, admin);
    assert.equal(reply.status, 405, `${method} ${path}: ${reply.body}`);
    const sorted = (text = '') => text.split(', ').sort();
    assert.deepEqual(sorted(reply.headers.allow), sorted(allow), `${method} ${path}`);
  }
  assertApiFault(await send('GET', '/v1alpha2/containers'), 404, /No such route/);
});

const json = { 'content-type': 'application/json' };
const ask = (body: Buffer, encoding: string) =>
  send('POST', '/v1alpha2/container', { ...json, 'content-encoding': encoding }, body);

test('JSON may be compressed with gzip, within the limit of a body after unpacking', async () => {
  const { name } = world.upstreams.relay.image('packed/app');
  const body = Buffer.from(JSON.stringify({ containerImage: name }));
  for (const encoding of ['gzip', 'GZIP', 'x-gzip']) {
    assert.equal((await ask(gzipSync(body), encoding)).status, 200, encoding);
  }
  assert.equal((await ask(body, 'identity')).status, 200);
  const bomb = gzipSync(Buffer.alloc(64 * 1024 + 1, ' '));
  assertApiFault(await ask(bomb, 'gzip'), 413, /larger than the 65536 bytes allowed/);
  const deep = gzipSync(Buffer.from('['.repeat(100)));
  assertApiFault(await ask(deep, 'gzip'), 400, /send less in one request/);
  for (const broken of [body, gzipSync(body).subarray(0, 20), Buffer.alloc(0)]) {
    const reply = await ask(broken, 'gzip');
    assertApiFault(reply, 400, /not a complete gzip file|is empty/);
  }
  const other = await ask(body, 'br');
  assertApiFault(other, 415, /Content-Encoding 'br'/);
  assert.equal(other.headers['accept-encoding'], 'gzip, identity');
});

const allowed = (reply: Reply) => reply.headers['access-control-allow-origin'];

test('a page of a listed origin may use the server, another page may not', async () => {
  const { name } = world.upstreams.relay.image('cors/app');
  const body = JSON.stringify({ containerImage: name });
  const from = (origin: string) => ({ ...json, origin, 'sec-fetch-site': 'cross-site' });
  const made = await send('POST', '/v1alpha2/container', from(portal), body);
  assert.equal(made.status, 200);
  assert.equal(allowed(made), portal);
  assert.match(made.headers['access-control-expose-headers'] ?? '', /RateLimit-Remaining/);
  assert.equal(made.headers.vary, 'Origin');
  assert.equal(made.headers['access-control-allow-credentials'], undefined);
  const { targetImage } = JSON.parse(String(made.body));
  const manifest = await call(world.sluice.at(targetImage, 'manifests/latest'), {
    headers: { origin: portal },
  });
  assert.equal(allowed(manifest), portal);
  const missing = await call(world.sluice.at(targetImage, 'manifests/none'), {
    headers: { origin: portal },
  });
  assert.equal(missing.status, 404);
  assert.equal(allowed(missing), portal, 'errors can be read as well');
  for (const origin of ['https://portal.example.org.evil.example', 'http://portal.example.org']) {
    const refused = await send('POST', '/v1alpha2/container', from(origin), body);
    assertApiFault(refused, 403, /another origin.*cors\.origins/);
    assert.equal(allowed(refused), undefined);
  }
});

test('a preflight request returns what a page of a listed origin may send', async () => {
  const preflight = (origin: string) => ({
    origin,
    'access-control-request-method': 'PUT',
    'access-control-request-headers': 'authorization',
  });
  for (const path of ['/v1alpha2/container', '/v2/team/app/manifests/latest', '/platform/tokens']) {
    const reply = await send('OPTIONS', path, preflight(portal));
    assert.equal(reply.status, 204, path);
    assert.equal(allowed(reply), portal);
    assert.match(reply.headers['access-control-allow-methods'] ?? '', /PUT/);
    assert.match(reply.headers['access-control-allow-headers'] ?? '', /Authorization/);
    const other = await send('OPTIONS', path, preflight('https://evil.example'));
    assert.ok(other.status >= 400);
    assert.equal(allowed(other), undefined);
  }
});

test('origins are written as browsers write them', () => {
  for (const origins of ['https://a.example/', 'a.example', 'https://A.example', 'null']) {
    assert.throws(() => loadConfig({ SLUICE_CORS_ORIGINS: origins }), /expected an origin such as/);
  }
  const { config } = loadConfig({ SLUICE_CORS_ORIGINS: 'https://a.example:8443,*' });
  assert.deepEqual(config.cors.origins, ['https://a.example:8443', '*']);
});

test('an invalid page size of tags has the error code of registries', async () => {
  const image = world.upstreams.relay.image('paged/app');
  const pull = await world.serve(image);
  const repository = new Repository(world.sluice, 'team/app');
  const message = /'n' must be the number of entries/;
  const expected = { status: 400, code: 'PAGINATION_NUMBER_INVALID', message };
  await repository.begin();
  for (const n of ['abc', '-1', '1.5', '99999999999']) {
    assertRegistryFault(await pull(`tags/list?n=${n}`), expected);
  }
  const index = JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests: [],
  });
  const type = { 'content-type': 'application/vnd.oci.image.index.v1+json' };
  assert.equal(
    (await repository.send('PUT', 'manifests/v1', Buffer.from(index), type)).status,
    201,
  );
  assertRegistryFault(await repository.get('tags/list?n=abc'), expected);
});

test('an index with a wrong size for a child is refused', async () => {
  const repository = new Repository(world.sluice, 'team/sizes');
  const mediaType = 'application/vnd.oci.image.index.v1+json';
  const put = (reference: string, body: object) =>
    repository.send('PUT', `manifests/${reference}`, Buffer.from(JSON.stringify(body)), {
      'content-type': mediaType,
    });
  const child = { schemaVersion: 2, mediaType, manifests: [] };
  const pushed = await put('child', child);
  const digest = pushed.headers['docker-content-digest'];
  const size = JSON.stringify(child).length;
  const naming = (bytes: number) => ({ ...child, manifests: [{ mediaType, digest, size: bytes }] });
  assertRegistryFault(await put('index', naming(size + 1)), {
    status: 400,
    code: 'SIZE_INVALID',
    message: /The index says that sha256:\w+ has \d+ bytes, but it has \d+/,
  });
  assert.equal((await put('index', naming(size))).status, 201);
});

/** Sends a request and closes the sending side; returns all that comes back. */
async function halfClosed(port: number, head: string): Promise<Buffer> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  socket.on('error', () => {});
  socket.end(`${head}\r\nhost: localhost\r\n\r\n`);
  const parts: Buffer[] = [];
  socket.on('data', part => parts.push(part));
  await once(socket, 'end');
  socket.destroy();
  return Buffer.concat(parts);
}

test('a client that closes its side after its GET gets the whole answer', async () => {
  const big = pattern(5_000_000, 'half-closed');
  for (const mode of ['relay', 'cache'] as const) {
    const image = world.upstreams[mode].image('half/closed', [big]);
    const { targetImage } = await world.sluice.request({ containerImage: image.name });
    const { pathname } = new URL(world.sluice.at(targetImage, `blobs/${image.layers[0]?.digest}`));
    const response = await halfClosed(world.sluice.port, `GET ${pathname} HTTP/1.1`);
    assert.match(response.subarray(0, 15).toString(), /^HTTP\/1\.1 200/);
    assert.deepEqual(response.subarray(-big.length), big);
  }
  const info = await halfClosed(world.sluice.port, 'GET /service-info HTTP/1.1');
  assert.match(info.toString(), /"serviceInfo"/);
});
