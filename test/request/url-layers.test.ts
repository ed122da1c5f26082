import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { digestOf } from '../../src/oci/digest.ts';
import { assertLogged, type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault } from '../faults/http-client.ts';
import { emptyLayer, pattern, type ScriptedUpstream } from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';

let world: FaultWorld;
let files: ScriptedUpstream;
const faultIds: string[] = [];

before(async () => {
  world = await startFaultWorld({
    layers: { maxUrlBytes: '100 KiB', maxTarBytes: '1 MiB', fetchTimeout: '3s' },
  });
  files = world.upstreams.redirect;
});

after(async () => {
  assertLogged(await world.log(), faultIds);
  assert.ok(!world.sluice.output().includes('hush'), 'no signed URL is in the log');
  await world[Symbol.asyncDispose]();
});

const layerUrl = (name: string) => `http://${files.host}/v2/files/${name}?signature=hush`;
const ask = (repository: string, layer: object) =>
  world.ask({
    containerImage: world.upstreams.relay.image(repository).name,
    containerConfig: { layers: [layer] },
  });

test('a layer at a URL is downloaded once, verified, and served from here', async () => {
  files.put('files/good.tar.gz', 'application/gzip', emptyLayer);
  const image = world.upstreams.relay.image('layers/good');
  const layer = {
    location: layerUrl('good.tar.gz'),
    gzipDigest: digestOf(emptyLayer),
    gzipSize: String(emptyLayer.length),
    tarDigest: digestOf(gunzipSync(emptyLayer)),
  };
  const pulls = [];
  for (let at = 0; at < 3; at += 1) {
    pulls.push(await world.serve(image, { env: [`AT=${at}`], layers: [layer] }));
  }
  for (const pull of pulls) {
    const { layers } = JSON.parse((await pull('manifests/latest')).body.toString());
    assert.deepEqual(layers.at(-1), {
      mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
      digest: layer.gzipDigest,
      size: emptyLayer.length,
    });
    assertBytes((await pull(`blobs/${layer.gzipDigest}`)).body, emptyLayer);
  }
  assert.equal(files.count('GET', '/files/good.tar.gz'), 1);
});

for (const [field, value] of [
  ['gzipDigest', `sha256:${'a'.repeat(64)}`],
  ['tarDigest', `sha256:${'b'.repeat(64)}`],
  ['gzipSize', 1],
] as const) {
  test(`a wrong ${field} is reported`, async () => {
    files.put(`files/${field}.tar.gz`, 'application/gzip', emptyLayer);
    const reply = await ask('layers/lie', {
      location: layerUrl(`${field}.tar.gz`),
      [field]: value,
    });
    const message = new RegExp(`layers\\[0\\]\\.${field} is ${value}, but the layer has `);
    faultIds.push(assertApiFault(reply, 400, message));
  });
}

test('a layer URL with too much content is refused, with and without a stated length', async () => {
  const large = pattern(200_000, 'large');
  files.put('files/large.tar.gz', 'application/gzip', large);
  files.on('/files/chunked.tar.gz', (_request, response) => response.end(large));
  files.on('/files/endless.tar.gz', (_request, response) => {
    const send = () => {
      while (!response.destroyed && response.write(large));
    };
    response.on('drain', send);
    send();
  });
  for (const name of ['large', 'chunked', 'endless']) {
    const reply = await ask('layers/large', { location: layerUrl(`${name}.tar.gz`) });
    assert.ok([400, 413].includes(reply.status), reply.body.toString());
    faultIds.push(
      assertApiFault(
        reply,
        reply.status,
        /layers\[0\] is (larger than the 102400 bytes|not a gzip)/,
      ),
    );
  }
  const zeros = gzipSync(Buffer.alloc(2 ** 21));
  files.put('files/bomb.tar.gz', 'application/gzip', zeros);
  const reply = await ask('layers/bomb', { location: layerUrl('bomb.tar.gz') });
  faultIds.push(assertApiFault(reply, 413, /unpacks to more than the 1048576 bytes allowed/));
});

test('a failed download of a layer is reported with its host and the reason', async () => {
  files.on('/files/cut.tar.gz', (_request, response) => {
    response.writeHead(200, { 'content-length': 1000 });
    response.write(emptyLayer, () => response.destroy());
  });
  files.on('/files/hang.tar.gz', () => {});
  files.on('/files/circle', (request, response) => {
    response.writeHead(302, { location: request.url });
    response.end();
  });
  for (const [name, reason] of [
    ['missing.tar.gz', /answered 404: check that the address is right/],
    ['cut.tar.gz', /could not be fetched from/],
    ['hang.tar.gz', /no response within/],
    ['circle', /redirects more than 5 times: use the final address/],
  ] as const) {
    const reply = await ask('layers/broken', { location: layerUrl(name) });
    faultIds.push(assertApiFault(reply, 400, reason));
    assert.match(
      reply.body.toString(),
      new RegExp(`layers\\[0\\] could not be fetched from ${files.host}`),
    );
    assert.ok(!reply.body.includes('hush'));
  }
});

test('a layer named after an architecture applies to images of that architecture only', async () => {
  files.put('files/tool-arm64.tar.gz', 'application/gzip', emptyLayer);
  files.put('files/tool-amd64.tar.gz', 'application/gzip', emptyLayer);
  const image = world.upstreams.relay.image('layers/platform');
  for (const [name, count] of [
    ['tool-arm64', 1],
    ['tool-amd64', 2],
  ] as const) {
    const pull = await world.serve(image, {
      env: ['X=1'],
      layers: [{ location: layerUrl(`${name}.tar.gz`) }],
    });
    const { layers } = JSON.parse((await pull('manifests/latest')).body.toString());
    assert.equal(layers.length, count, name);
  }
});

test('a layer that arrives too slowly is aborted, and its server disconnected', async () => {
  let open = 0;
  files.on('/files/slow', (_request, response) => {
    open += 1;
    // The head of a gzip file, and in it the name of a file that does not end.
    response.write(Buffer.from([0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3]));
    const timer = setInterval(() => response.write('x'), 100);
    response.once('close', () => {
      clearInterval(timer);
      open -= 1;
    });
  });
  const reply = await ask('layers/slow', { location: layerUrl('slow.tar.gz') });
  const message = /could not be fetched from \S+: it takes longer than 3 s/;
  faultIds.push(assertApiFault(reply, 400, message));
  await eventually('the connection is closed', () => open === 0);
});
