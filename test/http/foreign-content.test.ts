/** Content of registries and users is never a page of this server's origin. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertRegistryFault, call, type Reply, raw } from '../faults/http-client.ts';
import type { ScriptedUpstream } from '../faults/scripted-upstream.ts';
import { basic, manifestOf, Repository } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';

const page = '<!doctype html><script>document.title = origin</script>';
const html = 'text/html; charset=utf-8';
const index = 'application/vnd.oci.image.index.v1+json';

let world: FaultWorld;
let upstream: ScriptedUpstream;

before(async () => {
  world = await startFaultWorld({ accounts: { admin: 'open sesame' } });
  upstream = world.upstreams.relay;
});

after(() => world[Symbol.asyncDispose]());

function assertSafe(what: string, { headers }: Pick<Reply, 'headers'>): void {
  assert.equal(headers['x-content-type-options'], 'nosniff', what);
  assert.match(String(headers['content-security-policy']), /^default-src 'none'; /, what);
  assert.doesNotMatch(String(headers['content-security-policy']), /unsafe|\*/, what);
  assert.doesNotMatch(String(headers['content-type']), /html|xml|svg|script/, what);
}

test('an HTML page in place of a list is refused', async () => {
  const image = upstream.image('html/lists');
  const pull = await world.serve(image);
  const tag = image.digest.replace(':', '-');
  for (const [route, name] of [
    [`referrers/${image.digest}`, 'referrers/'],
    // Where there is no list, a tag stands in for it.
    [`referrers/${image.digest}`, `manifests/${tag}`],
  ] as const) {
    for (const body of [
      page,
      '{"tags":"<script>"}',
      `{"mediaType":"text/html","manifests":[]}`,
      '[]',
      '',
    ]) {
      upstream.on(`GET /v2/html/lists/${name}`, (_request, response) =>
        response.writeHead(200, { 'content-type': html }).end(body),
      );
      if (name !== 'referrers/') {
        upstream.on('GET /v2/html/lists/referrers/', (_request, response) =>
          response.writeHead(404).end(),
        );
      }
      const reply = await pull(route);
      assertRegistryFault(reply, {
        status: 502,
        code: 'UNAVAILABLE',
        message: /is not a valid list|answered (?:a web page|nothing) in place of the manifest/,
      });
      assertSafe(route, reply);
    }
  }
});

test('a list has a type and members of this server, whatever the registry sent', async () => {
  const image = upstream.image('html/extra');
  const pull = await world.serve(image);
  const entry = { mediaType: index, digest: image.digest, size: 7 };
  upstream.on('GET /v2/html/extra/referrers/', (_request, response) =>
    response
      .writeHead(200, {
        'content-type': html,
        'oci-filters-applied': 'artifactType',
        link: '</v2/x/referrers/y?last="a<b&n=2>; rel="next"',
      })
      .end(JSON.stringify({ schemaVersion: 2, page, manifests: [entry] })),
  );
  const referrers = await pull(`referrers/${image.digest}?artifactType=a`);
  assert.equal(referrers.headers['content-type'], index);
  assert.equal(referrers.headers['oci-filters-applied'], 'artifactType');
  assert.deepEqual(JSON.parse(referrers.body.toString()), {
    ...{ schemaVersion: 2, mediaType: index },
    manifests: [entry],
  });
  const { link } = referrers.headers;
  assert.match(String(link), /^<\/v2\/ct\/[^<>"]+\?last=%22a%3Cb&n=2>; rel="next"$/);
  assertSafe('listing', referrers);
});

test('a manifest of unknown type keeps its bytes and gets a type that browsers do not run', async () => {
  for (const mediaType of [
    'text/html',
    'image/svg+xml',
    'application/xhtml+xml',
    'text/javascript',
  ]) {
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, page }));
    upstream.put('html/manifest/manifests/latest', html, bytes);
    const name = `${upstream.host}/html/manifest:latest`;
    const response = await world.ask({ containerImage: name });
    if (response.status !== 200) {
      assertSafe(mediaType, response);
      continue;
    }
    const { targetImage } = JSON.parse(response.body.toString());
    const reply = await call(world.sluice.at(targetImage, 'manifests/latest'));
    assertBytes(reply.body, bytes);
    assert.equal(reply.headers['content-type'], 'application/octet-stream');
    assertSafe(mediaType, reply);
  }
});

test('a pushed manifest must have a manifest type', async () => {
  const repository = new Repository(world.sluice, 'public/html', basic('admin', 'open sesame'));
  const put = (contentType: string, body: object) =>
    repository.send('PUT', 'manifests/1', Buffer.from(JSON.stringify(body)), {
      'content-type': contentType,
    });
  for (const [type, body] of [
    ['text/html', { schemaVersion: 2 }],
    ['text/html', { schemaVersion: 2, mediaType: 'text/html' }],
    ['application/xml', { schemaVersion: 2 }],
  ] as const) {
    const reply = await put(type, body);
    assertRegistryFault(reply, { status: 400, code: 'MANIFEST_INVALID', message: /its type is/ });
  }
  const own = { schemaVersion: 2, mediaType: 'application/vnd.example.thing.v1+json' };
  assert.equal((await put(own.mediaType, own)).status, 201);
  const reply = await repository.get('manifests/1');
  assert.equal(reply.headers['content-type'], own.mediaType);
});

test('every answer to a program has the headers: errors, blobs, redirects, 304, and malformed requests', async () => {
  const { sluice } = world;
  const image = world.upstreams.redirect.image('html/blobs');
  const layer = image.layers[0]?.digest ?? '';
  world.upstreams.redirect.on(`GET /v2/html/blobs/blobs/${layer}`, (_request, response) =>
    response.writeHead(307, { location: `http://${upstream.host}/elsewhere` }).end(),
  );
  const pull = await world.serve(image);
  const repository = new Repository(sluice, 'public/page', basic('admin', 'open sesame'));
  const config = Buffer.from(page);
  assert.equal((await repository.pushBlob(config)).status, 201);
  const pushed = await repository.pushManifest('1', config);
  assert.equal(pushed.status, 201, pushed.body.toString());
  const [, digest = ''] = /(sha256:\w+)/.exec(manifestOf(config, []).toString()) ?? [];
  const etag = { headers: { 'if-none-match': '*' } };
  const replies = [
    ...['/healthz', '/readyz', '/metrics', '/openapi.json', '/service-info', '/nowhere'],
    ...[
      '/v2/',
      '/v2/token',
      '/v2/x',
      '/v1alpha1/builds/none',
      '/platform/user-info',
      '/platform/x',
    ],
  ].map(async path => [path, await call(sluice.url + path)] as const);
  for (const [what, reply] of [
    ...(await Promise.all(replies)),
    ['manifest', await pull('manifests/latest')],
    ['manifest 304', await pull('manifests/latest', etag)],
    ['config', await pull(`blobs/${image.configDigest}`)],
    ['redirect', await pull(`blobs/${layer}`)],
    ['blob of a page', await repository.get(`blobs/${digest}`)],
    ['POST', await call(`${sluice.url}/v1alpha2/container`, { method: 'POST', body: page })],
    ['PUT', await call(`${sluice.url}/healthz`, { method: 'PUT' })],
    ['push', pushed],
  ] as const) {
    assertSafe(`${what}: ${reply.status}`, reply);
  }
  for (const text of [
    'GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    'nonsense\r\n\r\n',
    'GET / HTTP/1.1\r\nConnection: close\r\n\r\n',
  ]) {
    assert.match(await raw(sluice.port, text), /\r\nx-content-type-options: nosniff\r\n/, text);
  }
  const upgrade =
    'GET /pairing/x/token/y?endpoint=z HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
  assert.match(await raw(sluice.port, upgrade), /^HTTP\/1\.1 403 .*nosniff\r\n/s);
});
