import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertBytes } from '../world/assert-bytes.ts';
import { assertLogged, type FaultWorld, startFaultWorld } from './fault-world.ts';
import { assertApiFault, assertRegistryFault, call } from './http-client.ts';
import { pattern, type ScriptedUpstream, startScriptedUpstream } from './scripted-upstream.ts';

const password = 'the-password-of-the-registry';
let world: FaultWorld;
let elsewhere: ScriptedUpstream;
/** A registry that no closed address is allowed for. Only a proxy knows its name, so that it can run here. */
let untrusted: ScriptedUpstream;
let untrustedWorld: FaultWorld;
const faultIds: string[] = [];

before(async () => {
  elsewhere = await startScriptedUpstream();
  world = await startFaultWorld(
    { upstream: {}, registries: { [elsewhere.host]: { plainHttp: true } } },
    { anonymous: true, username: 'robot', password },
  );
  untrusted = await startScriptedUpstream();
  // It is the proxy itself.
  untrusted.on('http://', (request, _response, serve) => {
    request.url = new URL(request.url ?? '').pathname;
    serve();
  });
  const settings = { plainHttp: true, allowPrivateAddress: false };
  untrustedWorld = await startFaultWorld(
    {
      upstream: { proxyNames: true },
      registries: {
        [elsewhere.host]: { plainHttp: true },
        'stranger.test': { ...settings, blobs: 'redirect' },
        'relayed.test': { ...settings, blobs: 'relay' },
      },
    },
    {},
    { env: { HTTP_PROXY: `http://${untrusted.host}`, NO_PROXY: '127.0.0.1' } },
  );
  for (const upstream of Object.values(world.upstreams)) {
    // Requires Basic credentials for everything.
    upstream.on('/v2/', (request, response, serve) => {
      if (request.headers.authorization) return serve();
      response.writeHead(401, { 'www-authenticate': 'Basic realm="it"' });
      response.end();
    });
  }
});

after(async () => {
  assertLogged(await world.log(), faultIds);
  const text = world.sluice.output();
  assert.ok(!text.includes(password) && !text.includes(basic.slice(6)), 'no password in the log');
  await Promise.all([world[Symbol.asyncDispose](), untrustedWorld[Symbol.asyncDispose]()]);
  await Promise.all([elsewhere.stop(), untrusted.stop()]);
});

const basic = `Basic ${Buffer.from(`robot:${password}`).toString('base64')}`;

test('a redirect loop ends with an error', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('round/and-round');
  relay.on('/v2/round/and-round/manifests/', (request, response) => {
    response.writeHead(307, { location: request.url ?? '', 'content-length': 0 });
    response.end();
  });
  const reply = await world.ask({ containerImage: image.name });
  faultIds.push(assertApiFault(reply, 400, /redirects in circles, or more than 5 times/));
});

test('a blob redirect loop ends with an error', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('round/blob');
  const pull = await world.serve(image);
  relay.on('/v2/round/blob/blobs/', (request, response) => {
    response.writeHead(302, { location: request.url ?? '' });
    response.end('moved');
  });
  const reply = await pull(`blobs/${image.layers[0]?.digest}`);
  faultIds.push(
    assertRegistryFault(reply, { status: 502, code: 'UNAVAILABLE', message: /in circles/ }),
  );
});

for (const mode of ['relay', 'cache'] as const) {
  test(`credentials are not sent to another origin (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const image = upstream.image('moved/blob');
    const [layer] = image.layers;
    elsewhere.put(`storage/${mode}`, 'application/octet-stream', layer?.bytes ?? Buffer.alloc(0));
    upstream.on('GET /v2/moved/blob/blobs/', (request, response) => {
      assert.equal(request.headers.authorization, basic);
      response.writeHead(307, {
        location: `http://${elsewhere.host}/v2/storage/${mode}?sig=s3cr3t`,
      });
      response.end();
    });
    const pull = await world.serve(image);
    const reply = await pull(`blobs/${layer?.digest}`);
    assert.equal(reply.status, 200);
    assertBytes(reply.body, layer?.bytes);
    const seen = elsewhere.requests.filter(({ path }) => path.includes(`storage/${mode}`));
    assert.equal(seen.length, 1);
    assert.equal(seen[0]?.headers.authorization, undefined);
  });
}

test('credentials are kept for a redirect inside the registry, and do not return with a redirect back to it', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('moved/inside');
  const [layer] = image.layers;
  relay.put('inside/target', 'application/octet-stream', layer?.bytes ?? Buffer.alloc(0));
  const seen: (string | undefined)[] = [];
  relay.on('/v2/inside/target', (request, _response, serve) => {
    seen.push(request.headers.authorization);
    serve();
  });
  relay.on('GET /v2/moved/inside/blobs/', (_request, response) => {
    response.writeHead(308, { location: '/v2/inside/target' });
    response.end();
  });
  const pull = await world.serve(image);
  assertBytes((await pull(`blobs/${layer?.digest}`)).body, layer?.bytes);
  assert.deepEqual(seen, [basic]);

  elsewhere.on('/v2/ping-pong', (_request, response) => {
    response.writeHead(307, { location: `http://${relay.host}/v2/inside/target` });
    response.end();
  });
  relay.on('GET /v2/moved/inside/blobs/', (_request, response) => {
    response.writeHead(307, { location: `http://${elsewhere.host}/v2/ping-pong` });
    response.end();
  });
  assertBytes((await pull(`blobs/${layer?.digest}`)).body, layer?.bytes);
  assert.equal(seen[1], undefined, 'a request outside the origin has no credentials');
});

test('blobs: redirect passes the address on and transfers nothing', async () => {
  const { redirect } = world.upstreams;
  const image = redirect.image('moved/handed-on');
  const location = `http://${elsewhere.host}/v2/storage/handed-on?X-Signature=abc%2Fdef`;
  redirect.on('GET /v2/moved/handed-on/blobs/', (_request, response) => {
    response.writeHead(307, { location });
    response.end('<a href="...">Temporary Redirect</a>');
  });
  const { targetImage } = await world.sluice.request({ containerImage: image.name });
  const url = world.sluice.at(targetImage, `blobs/${image.layers[0]?.digest}`);
  for (const headers of [{}, { range: 'bytes=3-5' }]) {
    const reply = await call(url, { headers });
    assert.equal(reply.status, 307);
    assert.equal(reply.headers.location, location);
    assert.equal(reply.headers['content-length'], '0');
    assert.equal(reply.body.length, 0);
    assert.equal(reply.headers.connection, 'close');
  }
  assert.equal(elsewhere.count('GET', 'handed-on'), 0);
});

test('blobs: redirect streams blobs that the registry itself sends', async () => {
  const { redirect } = world.upstreams;
  const image = redirect.image('moved/not-at-all');
  const pull = await world.serve(image);
  const reply = await pull(`blobs/${image.layers[0]?.digest}`);
  assert.equal(reply.status, 200);
  assertBytes(reply.body, image.layers[0]?.bytes);
});

const closed = { status: 403, code: 'DENIED' } as const;
const broken = { status: 502, code: 'UNAVAILABLE' } as const;

for (const [title, location, message, expected] of [
  [
    'a closed address',
    'http://10.1.2.3/blob',
    /redirects to '10\.1\.2\.3', a loopback, private/,
    closed,
  ],
  [
    'the metadata service',
    'http://169.254.169.254/latest',
    /redirects to '169\.254\.169\.254'/,
    closed,
  ],
  [
    'a name at a closed address',
    'http://localhost:1/blob',
    /redirects to 'localhost:1', a loopback, private/,
    closed,
  ],
  ['another protocol', 'file:///etc/passwd', /redirects to the protocol file:/, broken],
  ['nonsense', 'http://[', /redirects to an address that is not a URL/, broken],
] as const) {
  for (const mode of ['relay', 'cache', 'redirect'] as const) {
    test(`a registry that redirects to ${title} (${mode})`, async () => {
      const upstream = world.upstreams[mode];
      const repository = `moved/to-${title.replaceAll(' ', '-')}`;
      const image = upstream.image(repository);
      const pull = await world.serve(image);
      const leave = (_request: unknown, response: import('node:http').ServerResponse) => {
        response.writeHead(307, { location });
        response.end();
      };
      upstream.on(`/v2/${repository}/`, leave);
      const blob = await pull(`blobs/${image.layers[0]?.digest}`);
      faultIds.push(assertRegistryFault(blob, { ...expected, message }));
      assert.equal(blob.headers.location, undefined, 'no client is sent there');
      const made = await world.ask({ containerImage: image.name });
      faultIds.push(assertApiFault(made, expected === closed ? 403 : 400, message));
    });
  }
}

test('a layer URL that redirects to a closed address', async () => {
  const { relay } = world.upstreams;
  relay.on('/v2/files/away.tar.gz', (_request, response) => {
    response.writeHead(302, { location: 'http://169.254.169.254/latest' });
    response.end();
  });
  const location = `http://${relay.host}/v2/files/away.tar.gz`;
  const reply = await world.ask({
    containerImage: relay.image('moved/layer').name,
    containerConfig: { layers: [{ location }] },
  });
  faultIds.push(
    assertApiFault(reply, 403, /layers\[0\] could not be fetched .* redirects to '169\.254/),
  );
});

/** Serves an image of a registry that is not listed. */
const serveUntrusted = (host: string, repository: string, layer?: Buffer) => {
  const image = untrusted.image(repository, layer && [layer]);
  const name = `${host}/${repository}:latest`;
  return { image, pulling: untrustedWorld.serve({ ...image, name }) };
};

const bothHosts = /redirects to '127\.0\.0\.1:\d+', a loopback.* by listing both hosts/;

test('a registry that is not listed cannot redirect to a listed one at a closed address: manifests', async () => {
  const secret = Buffer.from('{"password":"of the intranet"}');
  elsewhere.put('any/path', 'application/json', secret);
  const { image, pulling } = serveUntrusted('stranger.test', 'lures/manifest');
  const pull = await pulling;
  untrusted.on('lures/manifest/manifests/sha256-', (_request, response) => {
    response.writeHead(307, { location: `http://${elsewhere.host}/v2/any/path` }).end();
  });
  const reply = await pull(`manifests/${image.digest.replace(':', '-')}`);
  assertRegistryFault(reply, { ...closed, message: bothHosts });
  assert.equal(elsewhere.count('GET', 'any/path'), 0);
});

test('a registry that is not listed cannot redirect to a listed one at a closed address: a blob for a client', async () => {
  const { image, pulling } = serveUntrusted('stranger.test', 'lures/blob');
  const pull = await pulling;
  untrusted.on('lures/blob/blobs/', (_request, response) => {
    response.writeHead(307, { location: `http://${elsewhere.host}/v2/blob/path` }).end();
  });
  const reply = await pull(`blobs/${image.layers[0]?.digest}`);
  assertRegistryFault(reply, { ...closed, message: bothHosts });
  assert.equal(reply.headers.location, undefined, 'no client is sent there');
});

test('a registry that is not listed cannot redirect to a listed one at a closed address: the rest of a blob', async () => {
  const layer = pattern(2_000_000, 'lures/rest');
  elsewhere.put('rest/path', 'application/octet-stream', layer);
  const { image, pulling } = serveUntrusted('relayed.test', 'lures/rest', layer);
  const pull = await pulling;
  untrusted.on('lures/rest/blobs/', (request, response) => {
    if (request.headers.range) {
      response.writeHead(307, { location: `http://${elsewhere.host}/v2/rest/path` }).end();
      return;
    }
    response.writeHead(200, { 'content-length': layer.length });
    response.write(layer.subarray(0, 1_000_000), () => response.destroy());
  });
  const reply = await pull(`blobs/${image.layers[0]?.digest}`);
  assert.equal(reply.isWhole, false);
  assert.ok(
    untrusted.requests.some(({ headers }) => headers.range),
    'the transfer was resumed',
  );
  assert.equal(elsewhere.count('GET', 'rest/path'), 0);
});

test('a registry that is not listed may redirect to itself and to another public host', async () => {
  const { image, pulling } = serveUntrusted('relayed.test', 'open/blob');
  const [layer] = image.layers;
  assert.ok(layer);
  const pull = await pulling;
  untrusted.put('kept/blob', 'application/octet-stream', layer.bytes);
  for (const host of ['relayed.test', 'storage.test', 'stranger.test']) {
    untrusted.on('open/blob/blobs/', (_request, response) => {
      response.writeHead(307, { location: `http://${host}/v2/kept/blob` }).end();
    });
    assertBytes((await pull(`blobs/${layer.digest}`)).body, layer.bytes);
  }
});
