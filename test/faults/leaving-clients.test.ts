import assert from 'node:assert/strict';
import { get, type IncomingMessage } from 'node:http';
import { after, before, test } from 'node:test';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type FaultWorld, startFaultWorld } from './fault-world.ts';
import { pattern, type ScriptedImage, type ScriptedUpstream } from './scripted-upstream.ts';

// A second would do, but on a busy machine; the time-outs are much longer.
const soonMs = 10_000;

let world: FaultWorld;

before(async () => {
  // Long enough that no timeout frees a connection before the tested event.
  world = await startFaultWorld({
    upstream: { connectTimeout: '60s', headersTimeout: '60s', idleTimeout: '60s' },
  });
});

after(async () => {
  const lines = await world.log();
  assert.deepEqual(
    lines.filter(({ level }) => level === 'error' || level === 'fatal'),
    [],
    'a client that disconnects is not an error',
  );
  assert.ok(lines.some(({ aborted }) => aborted));
  await world[Symbol.asyncDispose]();
});

/** A GET whose answer has begun. */
function begin(url: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = get(url, { agent: false }, response => {
      response.on('error', () => {});
      response.once('readable', () => resolve(response));
    });
    sent.on('error', reject);
  });
}

async function urlOf(image: ScriptedImage): Promise<string> {
  const { targetImage } = await world.sluice.request({ containerImage: image.name });
  return world.sluice.at(targetImage, `blobs/${image.layers[0]?.digest}`);
}

/** Sends the first part of each blob and the rest on command. */
function halting(upstream: ScriptedUpstream, repository: string, bytes: Buffer) {
  const { promise, resolve } = Promise.withResolvers<void>();
  let open = 0;
  upstream.on(`GET /v2/${repository}/blobs/`, async (_request, response) => {
    open += 1;
    response.once('close', () => {
      open -= 1;
    });
    response.writeHead(200, { 'content-length': bytes.length });
    response.write(bytes.subarray(0, 200_000));
    await promise;
    response.end(bytes.subarray(200_000));
  });
  return { goOn: resolve, open: () => open };
}

for (const mode of ['relay', 'cache', 'redirect'] as const) {
  test(`a client that disconnects during a blob frees its upstream connection (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const bytes = pattern(500_000, `leaves ${mode}`);
    const image = upstream.image('leaves/one', [bytes]);
    const transfer = halting(upstream, 'leaves/one', bytes);
    const response = await begin(await urlOf(image));
    assert.equal(transfer.open(), 1);
    response.destroy();
    await eventually('the connection is closed', () => transfer.open() === 0, soonMs);
  });

  test(`a client that disconnects before the answer frees its upstream connection (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const image = upstream.image('leaves/early');
    let open = 0;
    upstream.on('GET /v2/leaves/early/blobs/', (_request, response) => {
      open += 1;
      response.once('close', () => {
        open -= 1;
      });
    });
    const sent = get(await urlOf(image), { agent: false });
    sent.on('error', () => {});
    await eventually('the upstream is asked', () => open === 1);
    sent.destroy();
    await eventually('the connection is closed', () => open === 0, soonMs);
  });
}

test('a shared transfer continues for the others when one client disconnects', async () => {
  const { cache } = world.upstreams;
  const bytes = pattern(500_000, 'shared');
  const image = cache.image('leaves/shared', [bytes]);
  const transfer = halting(cache, 'leaves/shared', bytes);
  const url = await urlOf(image);
  const [first, ...others] = await Promise.all(Array.from({ length: 6 }, () => begin(url)));
  first?.destroy();
  const bodies = others.map(response => response.toArray().then(parts => Buffer.concat(parts)));
  await new Promise(resolve => setTimeout(resolve, 100));
  assert.equal(transfer.open(), 1, 'still needed');
  transfer.goOn();
  for (const body of bodies) assertBytes(await body, bytes);
  assert.equal(cache.count('GET', '/v2/leaves/shared/blobs/'), 1, 'one fetch for all');
});

test('a transfer ends when its last reader disconnects, and the next one starts from the beginning', async () => {
  const { cache } = world.upstreams;
  const bytes = pattern(500_000, 'all leave');
  const image = cache.image('leaves/all', [bytes]);
  const transfer = halting(cache, 'leaves/all', bytes);
  const url = await urlOf(image);
  const responses = await Promise.all([begin(url), begin(url), begin(url)]);
  for (const response of responses) response.destroy();
  await eventually('the connection is closed', () => transfer.open() === 0, soonMs);
  const again = await begin(url);
  transfer.goOn();
  assertBytes(Buffer.concat(await again.toArray()), bytes);
  assert.equal(cache.count('GET', '/v2/leaves/all/blobs/'), 2);
});

test('a client that stops reading stops the upstream instead of filling the memory', async () => {
  const { relay } = world.upstreams;
  const bytes = pattern(64 * 1024 * 1024, 'slow reader');
  const image = relay.image('leaves/slow', [bytes]);
  let sent = 0;
  relay.on('GET /v2/leaves/slow/blobs/', async (_request, response) => {
    response.writeHead(200, { 'content-length': bytes.length });
    const step = 1024 * 1024;
    for (let at = 0; at < bytes.length && !response.destroyed; at += step) {
      const wrote = response.write(bytes.subarray(at, at + step));
      sent = at + step;
      if (!wrote) await new Promise(resolve => response.once('drain', resolve));
    }
    response.end();
  });
  const reply = await begin(await urlOf(image));
  let before = -1;
  await eventually('the upstream is stopped', async () => {
    const isStill = sent === before;
    before = sent;
    await new Promise(resolve => setTimeout(resolve, 100));
    return isStill && sent === before;
  });
  assert.ok(sent < bytes.length / 2, `${sent} bytes were accepted without a reader`);
  assertBytes(Buffer.concat(await reply.toArray()), bytes);
});

test('a client may disconnect during a stored blob', async () => {
  const { cache } = world.upstreams;
  const bytes = pattern(32 * 1024 * 1024, 'kept');
  const url = await urlOf(cache.image('leaves/kept', [bytes]));
  assertBytes(Buffer.concat(await (await begin(url)).toArray()), bytes);
  const response = await begin(url);
  response.destroy();
  const again = await begin(url);
  assertBytes(Buffer.concat(await again.toArray()), bytes);
  assert.equal(cache.count('GET', '/v2/leaves/kept/blobs/'), 1);
});

test('a client that disconnects during the download of a layer ends it', async () => {
  const { relay, redirect } = world.upstreams;
  let open = 0;
  redirect.on('/files/slow.tar.gz', (_request, response) => {
    open += 1;
    response.once('close', () => {
      open -= 1;
    });
    response.write(Buffer.from([0x1f, 0x8b]));
  });
  const leave = new AbortController();
  const location = `http://${redirect.host}/v2/files/slow.tar.gz`;
  const containerImage = relay.image('layers/slow').name;
  const asked = world.sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ containerImage, containerConfig: { layers: [{ location }] } }),
    signal: leave.signal,
  });
  asked.catch(() => {});
  await eventually('the layer is fetched', () => open === 1);
  leave.abort();
  await eventually('the connection is closed', () => open === 0, soonMs + 5000);
});
