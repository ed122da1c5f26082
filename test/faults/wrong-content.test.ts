import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { assertLogged, type FaultWorld, startFaultWorld } from './fault-world.ts';
import { assertApiFault, assertRegistryFault } from './http-client.ts';
import { pattern } from './scripted-upstream.ts';

let world: FaultWorld;
const brokenPaths: string[] = [];
const faultIds: string[] = [];

before(async () => {
  world = await startFaultWorld({ upstream: {} });
});

after(async () => {
  const lines = await world.log();
  assertLogged(lines, faultIds);
  for (const path of brokenPaths) {
    const line = lines.find(entry => entry.path?.includes(path));
    assert.equal(line?.level, 'error', `${path} has an error line`);
    assert.equal(line?.aborted, true);
    assert.ok(line?.err);
  }
  await world[Symbol.asyncDispose]();
});

function lastBitChanged(right: Buffer): Buffer {
  const wrong = Buffer.from(right);
  wrong[wrong.length - 1] = (wrong.at(-1) ?? 0) ^ 1;
  return wrong;
}

function shortened(right: Buffer): Buffer {
  return right.subarray(0, 1_500_000);
}

async function keptFiles(): Promise<string[]> {
  const content = join(world.sluice.data, 'content');
  const entries = await readdir(content, { recursive: true });
  const files: string[] = [];
  for (const entry of entries) {
    if ((await stat(join(content, entry)).catch(() => undefined))?.isFile()) files.push(entry);
  }
  return files;
}

for (const mode of ['relay', 'cache'] as const) {
  const broken = [
    { what: 'other bytes', change: lastBitChanged, isTold: true },
    // Without Content-Length: only the bytes themselves show it.
    { what: 'a shorter blob, chunked', change: shortened, isTold: false },
  ];
  for (const { what, change, isTold } of broken) {
    test(`a registry that sends ${what} (${mode})`, async () => {
      // A blob for each test: the cache of one test must not affect the next.
      const right = pattern(2_000_000, `${what} ${mode}`);
      const bytes = change(right);
      const upstream = world.upstreams[mode];
      const repository = `wrong/${what.replaceAll(/\W+/g, '-')}`;
      const image = upstream.image(repository, [right]);
      const digest = image.layers[0]?.digest ?? '';
      upstream.on(`GET /v2/${repository}/blobs/${digest}`, (_request, response) => {
        response.writeHead(200, isTold ? { 'content-length': bytes.length } : {});
        response.end(bytes);
      });
      const pull = await world.serve(image);
      const reply = await pull(`blobs/${digest}`);
      assert.equal(reply.isWhole, false, 'the client can detect that it is broken');
      assert.ok(reply.body.length < right.length, 'the last byte is kept back');
      brokenPaths.push(`${repository}/blobs/${digest}`);
      const hex = digest.slice('sha256:'.length);
      await eventually('nothing of it is left', async () => {
        const files = await keptFiles();
        return files.every(file => !file.includes(hex) && !file.startsWith('tmp'));
      });

      upstream.on(`GET /v2/${repository}/blobs/${digest}`, (_request, _response, serve) => serve());
      const mended = await pull(`blobs/${digest}`);
      assert.ok(mended.isWhole, 'a correct answer is accepted afterwards');
      assertBytes(mended.body, right);
    });
  }
}

const responses = [
  { what: 'no bytes', status: 200, length: 0 },
  { what: 'too few bytes', status: 200, length: 1_999_999 },
  { what: 'too many bytes', status: 200, length: 2_000_001 },
  { what: 'no content', status: 204, length: 0 },
  { what: 'a part of another blob', status: 206, length: 8, place: 'bytes 0-7/3000000' },
  { what: 'a later part', status: 206, length: 8, place: 'bytes 1000-1007/2000000' },
  { what: 'a part of another length', status: 206, length: 8, place: 'bytes 0-9/2000000' },
  { what: 'a part beyond the end', status: 206, length: 8, place: 'bytes 0-7/7' },
  { what: 'a part that is none', status: 206, length: 8, place: 'bytes 0/7' },
];
for (const mode of ['relay', 'cache', 'redirect'] as const) {
  test(`an answer that cannot be the blob is a 502, for the whole blob and for a range (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const image = upstream.image('wrong/answer', [pattern(2_000_000, 'wrong answers')]);
    const digest = image.layers[0]?.digest ?? '';
    const pull = await world.serve(image);
    for (const { what, status, length, place } of responses) {
      upstream.on(`/v2/wrong/answer/blobs/${digest}`, (request, response) => {
        const range = place === undefined ? {} : { 'content-range': place };
        response.writeHead(status, { 'content-length': length, ...range });
        response.end(request.method === 'HEAD' ? undefined : Buffer.alloc(length));
      });
      for (const range of [undefined, 'bytes=5-99']) {
        const reply = await pull(`blobs/${digest}`, { headers: range ? { range } : {} });
        const message = /cannot deliver the blob/;
        const id = assertRegistryFault(reply, { status: 502, code: 'UNAVAILABLE', message });
        faultIds.push(id);
        assert.ok(id, what);
      }
    }
    upstream.on(`/v2/wrong/answer/blobs/${digest}`, (_request, response) => {
      response.writeHead(200, { 'content-length': 7 }).end();
    });
    assert.equal((await pull(`blobs/${digest}`, { method: 'HEAD' })).status, 502);
  });
}

test('a registry that returns another manifest than the requested digest', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('wrong/manifest');
  relay.on('GET /v2/wrong/manifest/manifests/', (_request, response) => {
    const other = image.manifest.toString().replace('"schemaVersion":2', '"schemaVersion": 2');
    response.writeHead(200, { 'content-type': 'application/vnd.oci.image.manifest.v1+json' });
    response.end(other);
  });
  const reply = await world.ask({ containerImage: image.name });
  faultIds.push(assertApiFault(reply, 502, /returned the wrong content for .*wrong\/manifest/));
  const hex = image.digest.slice('sha256:'.length);
  assert.deepEqual(
    (await keptFiles()).filter(file => file.includes(hex)),
    [],
  );
});

test('a registry that returns another config than the requested digest', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('wrong/config');
  relay.on('GET /v2/wrong/config/blobs/', (_request, response) => response.end('{"os":"linux"}'));
  const reply = await world.ask({
    containerImage: image.name,
    containerConfig: { env: ['WRONG=1'] },
  });
  faultIds.push(assertApiFault(reply, 502, /returned the wrong content for .*wrong\/config/));
});

test('a manifest of many megabytes is refused', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('wrong/huge');
  relay.on('/v2/wrong/huge/manifests/', (request, response) => {
    response.writeHead(200, { 'content-type': 'application/vnd.oci.image.manifest.v1+json' });
    if (request.method === 'HEAD') return void response.end();
    const send = () => {
      while (!response.destroyed && response.write(pattern(65_536, 'huge')));
    };
    response.on('drain', send);
    send();
  });
  const reply = await world.ask({ containerImage: image.name });
  faultIds.push(assertApiFault(reply, 502, /is larger than the \d+ bytes that Sluice reads/));
});

test('a manifest that is not JSON is refused', async () => {
  const { relay } = world.upstreams;
  const bytes = Buffer.from('<html>Please sign in</html>');
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  for (const name of ['latest', digest]) {
    relay.put(`wrong/html/manifests/${name}`, 'application/vnd.oci.image.manifest.v1+json', bytes);
  }
  const reply = await world.ask({ containerImage: `${relay.host}/wrong/html:latest` });
  faultIds.push(assertApiFault(reply, 502, /answered a web page in place of the manifest/));
});
