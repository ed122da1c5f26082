import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { assertLogged, type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertRegistryFault, call, type Reply, raw } from '../faults/http-client.ts';
import { emptyLayer, pattern, type ScriptedImage } from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';

let world: FaultWorld;
let image: ScriptedImage;
let target: string;
let manifest: Reply;
let served: { config: { digest: string }; layers: { digest: string }[] };
const layerBytes = pattern(5000, 'routes');
const octets = 'application/octet-stream';

before(async () => {
  world = await startFaultWorld();
  const { relay } = world.upstreams;
  image = relay.image('team/app', [layerBytes]);
  ({ targetImage: target } = await world.sluice.request({
    containerImage: image.name,
    containerConfig: {
      env: ['A=1'],
      layers: [{ location: `data:${emptyLayer.toString('base64')}` }],
    },
  }));
  manifest = await call(at('manifests/latest'));
  served = JSON.parse(manifest.body.toString());
});

after(async () => {
  const lines = await world.log();
  assertLogged(lines, []);
  const [, token = ''] = /\/ct\/([a-z0-9]+)\//.exec(target) ?? [];
  assert.ok(token.length > 20);
  assert.ok(!world.sluice.output().includes(token), 'the token is not in the log');
  await world[Symbol.asyncDispose]();
});

const at = (route: string) => world.sluice.at(target, route);
const pathOf = (route: string) => new URL(at(route)).pathname;

/** All parts of an image: their sources differ, but clients see no difference. */
const parts = () => [
  [
    'manifest by tag',
    'manifests/latest',
    manifest.headers['content-type'],
    digestOf(manifest.body),
  ],
  [
    'manifest by digest',
    `manifests/${digestOf(manifest.body)}`,
    manifest.headers['content-type'],
    digestOf(manifest.body),
  ],
  ['generated config', `blobs/${served.config.digest}`, octets, served.config.digest],
  ['injected layer', `blobs/${digestOf(emptyLayer)}`, octets, digestOf(emptyLayer)],
  ['relayed layer', `blobs/${image.layers[0]?.digest}`, octets, digestOf(layerBytes)],
];

test('GET and HEAD of every part have identical headers', async () => {
  assert.equal(manifest.headers['content-type'], 'application/vnd.oci.image.manifest.v1+json');
  for (const [what, route = '', type, digest = ''] of parts()) {
    const got = await call(at(route));
    assert.equal(got.status, 200, what);
    assert.equal(digestOf(got.body), digest, what);
    const expected = {
      'content-type': type,
      'content-length': String(got.body.length),
      'docker-content-digest': digest,
      etag: `"${digest}"`,
      'docker-distribution-api-version': 'registry/2.0',
    };
    const head = await call(at(route), { method: 'HEAD' });
    assert.equal(head.status, 200, what);
    assert.equal(head.body.length, 0);
    for (const [name, value] of Object.entries(expected)) {
      assert.equal(got.headers[name], value, `${name} of ${what}`);
      assert.equal(head.headers[name], value, `${name} of HEAD of ${what}`);
    }
    assert.equal(head.headers['transfer-encoding'], undefined);
    assert.equal(got.headers['content-encoding'], undefined);
    const names = (reply: Reply) => Object.keys(reply.headers).sort();
    assert.deepEqual(names(head), names(got), what);
  }
});

test('no answer is compressed, whatever the client accepts', async () => {
  for (const [what, route = ''] of parts()) {
    const headers = { 'accept-encoding': 'gzip, zstd, br, deflate' };
    const reply = await call(at(route), { headers });
    assert.equal(reply.headers['content-encoding'], undefined, what);
    assert.equal(reply.headers['content-length'], String(reply.body.length));
  }
  const asked = world.upstreams.relay.requests.map(seen => seen.headers['accept-encoding']);
  assert.deepEqual([...new Set(asked)], ['identity'], 'and no upstream is asked');
});

test('If-None-Match', async () => {
  for (const [what, route = '', , digest] of parts()) {
    for (const value of [`"${digest}"`, `W/"${digest}"`, `"other", "${digest}"`, '*']) {
      for (const method of ['GET', 'HEAD']) {
        const reply = await call(at(route), { method, headers: { 'if-none-match': value } });
        assert.equal(reply.status, 304, `${method} ${what} ${value}`);
        assert.equal(reply.body.length, 0);
        assert.equal(reply.headers.etag, `"${digest}"`);
        assert.equal(reply.headers['docker-content-digest'], digest);
      }
    }
    const other = await call(at(route), { headers: { 'if-none-match': '"sha256:other"' } });
    assert.equal(other.status, 200);
  }
});

test('ranges of blobs, from every source', async () => {
  for (const [bytes, digest] of [
    [layerBytes, image.layers[0]?.digest],
    [emptyLayer, digestOf(emptyLayer)],
  ] as const) {
    const size = bytes.length;
    const ranges: readonly [header: string, start: number, end: number][] = [
      ['bytes=0-0', 0, 0],
      ['bytes=3-9', 3, 9],
      ['bytes=5-', 5, size - 1],
      ['bytes=0-', 0, size - 1],
      ['bytes=-4', size - 4, size - 1],
      ['bytes=-999999', 0, size - 1],
      ['bytes=7-999999', 7, size - 1],
      [`bytes=${size - 1}-`, size - 1, size - 1],
      ['Bytes=1-2', 1, 2],
    ];
    for (const [range, start, end] of ranges) {
      const reply = await call(at(`blobs/${digest}`), { headers: { range } });
      assert.equal(reply.status, 206, range);
      assert.equal(reply.headers['content-range'], `bytes ${start}-${end}/${size}`);
      assert.equal(reply.headers['content-length'], String(end - start + 1));
      assert.equal(reply.headers['docker-content-digest'], digest);
      assertBytes(reply.body, bytes.subarray(start, end + 1), range);
    }
    for (const range of ['lines=1-2', 'bytes=', 'bytes=a-b', 'bytes=-', 'x']) {
      const reply = await call(at(`blobs/${digest}`), { headers: { range } });
      assert.equal(reply.status, 200, range);
      assertBytes(reply.body, bytes);
    }
    for (const range of [
      `bytes=${size}-`,
      'bytes=-0',
      'bytes=9-3',
      'bytes=99999999999999999999-',
    ]) {
      const reply = await call(at(`blobs/${digest}`), { headers: { range } });
      assertRegistryFault(reply, {
        status: 416,
        code: 'UNSUPPORTED',
        message: /range is outside the blob/,
      });
      assert.equal(reply.headers['content-range'], `bytes */${size}`, range);
    }
    const etag = `"${digest}"`;
    const same = await call(at(`blobs/${digest}`), {
      headers: { range: 'bytes=1-2', 'if-range': etag },
    });
    assert.equal(same.status, 206);
    const other = await call(at(`blobs/${digest}`), {
      headers: { range: 'bytes=1-2', 'if-range': '"other"' },
    });
    assert.equal(other.status, 200);
    const head = await call(at(`blobs/${digest}`), {
      method: 'HEAD',
      headers: { range: 'bytes=1-2' },
    });
    assert.equal(head.headers['content-length'], String(size));
    assert.equal(head.headers['accept-ranges'], 'bytes');
  }
});

test('a range of a cached blob that is not stored yet', async () => {
  const { cache } = world.upstreams;
  const bytes = pattern(1_000_000, 'cached range');
  const cached = cache.image('team/ranges', [bytes]);
  const pull = await world.serve(cached);
  const route = `blobs/${cached.layers[0]?.digest}`;
  const over = await pull(route, { headers: { range: 'bytes=1000000-' } });
  assert.equal(over.status, 416);
  const [suffix, middle] = await Promise.all([
    pull(route, { headers: { range: 'bytes=-10' } }),
    pull(route, { headers: { range: 'bytes=500000-500009' } }),
  ]);
  assertBytes(suffix.body, bytes.subarray(-10));
  assertBytes(middle.body, bytes.subarray(500_000, 500_010));
});

test('the API root refers clients with a login to the token service; served names need no token', async () => {
  for (const headers of [
    {},
    { authorization: 'Basic Og==' },
    { authorization: `Basic ${Buffer.from('admin:outdated').toString('base64')}` },
    { authorization: 'Bearer nonsense' },
  ]) {
    for (const path of ['/v2/', '/v2']) {
      const reply = await call(world.sluice.url + path, { headers });
      assert.equal(reply.status, 401);
      assert.equal(reply.headers['docker-distribution-api-version'], 'registry/2.0');
      const { host, url } = world.sluice;
      const challenge = `Bearer realm="${url}/v2/token",service="${host}"`;
      assert.ok(String(reply.headers['www-authenticate']).startsWith(challenge));
      const head = await call(world.sluice.url + path, { method: 'HEAD', headers });
      assert.equal(head.status, 401);
    }
    assert.equal((await call(at('manifests/latest'), { headers })).status, 200);
  }
  const upstreamSaw = world.upstreams.relay.requests.map(seen => seen.headers.authorization);
  assert.deepEqual([...new Set(upstreamSaw)], [undefined], "a client's credentials go nowhere");
});

test('other tags, digests and repositories are not served', async () => {
  for (const [route, code, message] of [
    ['manifests/other', 'MANIFEST_UNKNOWN', /serves app:latest only: make a container request/],
    [`manifests/sha256:${'0'.repeat(64)}`, 'MANIFEST_UNKNOWN', /does not exist at/],
    [`blobs/sha256:${'0'.repeat(64)}`, 'BLOB_UNKNOWN', /does not exist at/],
  ] as const) {
    for (const method of ['GET', 'HEAD']) {
      const reply = await call(at(route), { method });
      assert.equal(reply.status, 404);
      if (method === 'GET') assertRegistryFault(reply, { status: 404, code, message });
    }
  }
  const wrong = at('manifests/latest').replace('/team/app/', '/team/other/');
  assertRegistryFault(await call(wrong), {
    status: 404,
    code: 'NAME_UNKNOWN',
    message: /stands for team\/app, not for team\/other/,
  });
});

test('unknown and revoked tokens are distinguished', async () => {
  const expected = { status: 404, code: 'NAME_UNKNOWN' };
  for (const token of ['a'.repeat(32), 'x', 'A'.repeat(32), `${'a'.repeat(31)}0`]) {
    const reply = await call(`${world.sluice.url}/v2/ct/${token}/team/app/manifests/latest`);
    assertRegistryFault(reply, { ...expected, message: /Unknown container token/ });
  }
  const { containerToken, targetImage } = await world.sluice.request({
    containerImage: image.name,
  });
  const url = `${world.sluice.url}/container-token/${containerToken}`;
  for (const authorization of [undefined, 'Basic Og==', `Basic ${btoa('admin:wrong')}`]) {
    const headers = authorization ? { authorization } : {};
    const refused = await call(url, { method: 'DELETE', headers });
    assert.equal(refused.status, 401);
    assert.match(refused.headers['www-authenticate'] ?? '', /^Basic realm=/);
  }
  const pulled = await call(world.sluice.at(targetImage, 'manifests/latest'));
  assert.equal(pulled.status, 200);
  const headers = { authorization: `Basic ${btoa('admin:open sesame')}` };
  assert.equal((await call(url, { method: 'DELETE', headers })).status, 200);
  assert.equal((await call(url, { method: 'DELETE', headers })).status, 404);
  const gone = await call(world.sluice.at(targetImage, 'manifests/latest'));
  assertRegistryFault(gone, { ...expected, message: /token was revoked at 20.*Z: make a new/ });
});

test('a served name can only be pulled', async () => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    for (const route of ['manifests/latest', 'blobs/uploads/', `blobs/${digestOf(emptyLayer)}`]) {
      const headers = { 'content-length': 1 };
      const reply = await call(at(route), { method, headers, body: 'x' });
      assertRegistryFault(reply, {
        status: 405,
        code: 'UNSUPPORTED',
        message: /names can only be pulled/,
      });
      assert.equal(reply.headers.allow, 'GET, HEAD');
    }
  }
});

test('escaped digests and query strings', async () => {
  const digest = digestOf(manifest.body);
  for (const reference of [
    digest.replace(':', '%3A'),
    digest.replace(':', '%3a'),
    `${digest}?ns=docker.io`,
  ]) {
    const reply = await call(at(`manifests/${reference}`));
    assertBytes(reply.body, manifest.body, reference);
  }
  const blob = await call(at(`blobs/${digestOf(emptyLayer).replace(':', '%3A')}?x=/manifests/y`));
  assertBytes(blob.body, emptyLayer);
});

test('invalid paths', async () => {
  const [, , , token = ''] = pathOf('x').split('/');
  const base = `/v2/ct/${token}`;
  for (const [path, status] of [
    [`${base}/team/app/manifests/%00`, 404],
    [`${base}/team/app/manifests/latest%00`, 404],
    [`${base}/team/app/manifests/%zz`, 404],
    [`${base}/team/app/blobs/sha256:abc`, 400],
    [`${base}/team/app/blobs/latest`, 400],
    [`${base}/team/app/blobs/sha256:${'A'.repeat(64)}`, 400],
    [`${base}/team/app/blobs/..%2f..%2f..%2fetc%2fpasswd`, 400],
    [`${base}/../../../etc/passwd/manifests/latest`, 400],
    [`${base}/team/%2e%2e/manifests/latest`, 400],
    [`${base}%2fteam%2fapp/manifests/latest`, 404],
    [`${base}/Team/App/manifests/latest`, 400],
    [`${base}/${'a/'.repeat(150)}a/manifests/latest`, 400],
    [`${base}/team/app/manifests/${'t'.repeat(300)}`, 404],
    [`${base}/manifests/latest`, 404],
    [`${base}/team/app/tags/other`, 404],
    [`${base}/team/app/other/latest`, 404],
    [`${base}/team/app/manifests/`, 404],
    [`${base}//team/app/manifests/latest`, 400],
    ['/v2/ct', 404],
    ['/v2/ct/', 404],
    ['/v2/ct//manifests/', 404],
    ['/v2/other/app/manifests/latest', 401],
    ['/v2/public/app/manifests/latest', 404],
  ] as const) {
    const response = await raw(
      world.sluice.port,
      `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
    );
    assert.match(response, new RegExp(`^HTTP/1\\.1 ${status} `), `${path}: ${response}`);
    assert.match(response, /\r\ncontent-type: application\/json\r\n/i);
    const body = response.slice(response.indexOf('\r\n\r\n') + 4);
    assert.ok(JSON.parse(body).errors[0].message.length > 10, path);
  }
});

test('bytes that are not HTTP get an answer', async () => {
  const hello = Buffer.from('160301005a0100005603035f', 'hex');
  const { port } = world.sluice;
  assert.match(await raw(port, hello), /^HTTP\/1\.1 400 /);
  assert.match(await raw(port, 'GET\r\n\r\n'), /^HTTP\/1\.1 400 /);
  const fields = `x: ${'y'.repeat(100_000)}`;
  assert.match(await raw(port, `GET / HTTP/1.1\r\n${fields}\r\n\r\n`), /^HTTP\/1\.1 431 /);
  assert.equal((await call(at('manifests/latest'))).status, 200, 'and the server works');
});
