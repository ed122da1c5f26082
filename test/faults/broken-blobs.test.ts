import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type FaultWorld, shortMs, startFaultWorld } from './fault-world.ts';
import { pattern, rangeStart, type Script } from './scripted-upstream.ts';

let world: FaultWorld;

before(async () => {
  world = await startFaultWorld();
});

after(async () => {
  const lines = await world.log();
  assert.deepEqual(
    lines.filter(({ msg }) => msg === 'unexpected error'),
    [],
  );
  await world[Symbol.asyncDispose]();
});

/** Sends the given number of bytes and then breaks the connection, the given number of times. */
function breaking(bytes: Buffer, step: number, times: number, ranges = true): Script {
  let broken = 0;
  return (request, response) => {
    const start = ranges ? rangeStart(request) : 0;
    response.writeHead(start > 0 ? 206 : 200, {
      'content-length': bytes.length - start,
      ...(start > 0
        ? { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` }
        : {}),
    });
    broken += 1;
    if (broken > times) return void response.end(bytes.subarray(start));
    const end = ranges ? start + step : step * broken;
    response.write(bytes.subarray(start, end), () => setTimeout(() => response.destroy(), 20));
  };
}

for (const mode of ['relay', 'cache'] as const) {
  test(`a blob that breaks off four times arrives complete (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const big = pattern(3_000_000, `broken/resumed ${mode}`);
    const image = upstream.image('broken/resumed', [big]);
    const path = `/v2/broken/resumed/blobs/${image.layers[0]?.digest}`;
    upstream.on(`GET ${path}`, breaking(big, 500_000, 4));
    const pull = await world.serve(image);
    const reply = await pull(`blobs/${image.layers[0]?.digest}`);
    assert.equal(reply.status, 200);
    assert.ok(reply.isWhole);
    assertBytes(reply.body, big);
    const ranges = upstream.requests
      .filter(({ method, path: asked }) => method === 'GET' && asked === path)
      .map(({ headers }) => headers.range);
    assert.equal(ranges.length, 5);
    assert.equal(ranges[0], undefined);
    for (const range of ranges.slice(1)) assert.match(range ?? '', /^bytes=[1-9]\d*-$/);
  });

  test(`if a registry ignores Range and starts again, the client does not (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const big = pattern(3_000_000, `broken/rangeless ${mode}`);
    const image = upstream.image('broken/rangeless', [big]);
    upstream.on('GET /v2/broken/rangeless/blobs/', breaking(big, 400_000, 3, false));
    const pull = await world.serve(image);
    const reply = await pull(`blobs/${image.layers[0]?.digest}`);
    assert.ok(reply.isWhole);
    assertBytes(reply.body, big);
    assert.equal(upstream.count('GET', '/v2/broken/rangeless/blobs/'), 4);
  });

  test(`a blob without progress is aborted, never finished short (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const big = pattern(3_000_000, `broken/for-ever ${mode}`);
    const image = upstream.image('broken/for-ever', [big]);
    upstream.on('GET /v2/broken/for-ever/blobs/', (request, response) => {
      const start = rangeStart(request);
      response.writeHead(start > 0 ? 206 : 200, { 'content-length': big.length - start });
      const rest = big.subarray(start, Math.max(start, 1_000_000));
      response.write(rest, () => setTimeout(() => response.destroy(), 20));
    });
    const pull = await world.serve(image);
    const reply = await pull(`blobs/${image.layers[0]?.digest}`);
    assert.equal(reply.status, 200);
    assert.equal(reply.headers['content-length'], String(big.length));
    assert.equal(reply.isWhole, false);
    assert.ok(reply.body.length <= 1_000_000);
    assertBytes(reply.body, big.subarray(0, reply.body.length));
    assert.ok(upstream.count('GET', '/v2/broken/for-ever/blobs/') >= 4, 'three tries to go on');
  });

  test(`a slow blob with pauses below the idle timeout is complete (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    // A machine that stands still makes a longer pause: one of three transfers is without.
    for (let tried = 1; ; tried += 1) {
      const repository = `drip/fast${tried}`;
      const bytes = pattern(6000, `drip ${mode} ${tried}`);
      const image = upstream.image(repository, [bytes]);
      upstream.on(`GET /v2/${repository}/blobs/`, (_request, response) => {
        response.writeHead(200, { 'content-length': bytes.length });
        let sent = 0;
        const timer = setInterval(() => {
          response.write(bytes.subarray(sent, sent + 1000));
          sent += 1000;
          if (sent < bytes.length) return;
          clearInterval(timer);
          response.end();
        }, shortMs.idle / 5);
      });
      const pull = await world.serve(image);
      const reply = await pull(`blobs/${image.layers[0]?.digest}`);
      assert.ok(reply.isWhole);
      assertBytes(reply.body, bytes);
      assert.ok(reply.ms > shortMs.idle, 'it took longer than the idle time-out as a whole');
      const asked = upstream.count('GET', `/v2/${repository}/blobs/`);
      if (asked === 1) return;
      assert.ok(tried < 3, `asked ${asked} times`);
    }
  });

  test(`a stalled transfer is aborted after the idle timeouts (${mode})`, async () => {
    const upstream = world.upstreams[mode];
    const big = pattern(3_000_000, `drip/stalled ${mode}`);
    const image = upstream.image('drip/stalled', [big]);
    upstream.on('GET /v2/drip/stalled/blobs/', (request, response) => {
      const start = rangeStart(request);
      response.writeHead(start > 0 ? 206 : 200, { 'content-length': big.length - start });
      if (start === 0) response.write(big.subarray(0, 100_000));
      else response.flushHeaders();
    });
    const pull = await world.serve(image);
    const reply = await pull(`blobs/${image.layers[0]?.digest}`);
    assert.equal(reply.isWhole, false);
    const waited = reply.ms / shortMs.idle;
    assert.ok(waited > 3 && waited < 30, `${reply.ms} ms`);
    await eventually('the connections are closed', () => upstream.connections() <= 1);
  });
}

test('a slow blob with little progress ends within the time limit', async () => {
  const big = pattern(3_000_000, 'drip/slow');
  const pulls = (['relay', 'cache'] as const).map(async mode => {
    const upstream = world.upstreams[mode];
    const image = upstream.image('drip/slow', [big]);
    upstream.on('GET /v2/drip/slow/blobs/', (_request, response) => {
      response.writeHead(200, { 'content-length': big.length });
      let sent = 0;
      const timer = setInterval(() => {
        response.write(big.subarray(sent, sent + 100));
        sent += 100;
      }, 200);
      response.once('close', () => clearInterval(timer));
    });
    const pull = await world.serve(image);
    const reply = await pull(`blobs/${image.layers[0]?.digest}`);
    assert.equal(reply.isWhole, false);
    assertBytes(reply.body, big.subarray(0, reply.body.length));
    const limit = shortMs.stall + shortMs.idle;
    assert.ok(reply.ms >= shortMs.stall && reply.ms < 3 * limit, `${reply.ms} ms`);
    await eventually('the connections are closed', () => upstream.connections() <= 1);
  });
  await Promise.all(pulls);
});

test('a stalled part is distinguished from the wrong part', async () => {
  const { relay } = world.upstreams;
  const big = pattern(3_000_000, 'gap');
  const image = relay.image('broken/gap', [big]);
  // After the break the registry answers for a later byte than requested: the gap must be detected.
  relay.on('GET /v2/broken/gap/blobs/', (request, response) => {
    const start = rangeStart(request);
    if (start === 1000) {
      response.writeHead(206, {
        'content-length': 9000,
        'content-range': `bytes 1000-9999/${big.length}`,
      });
      response.write(big.subarray(1000, 5000), () => setTimeout(() => response.destroy(), 20));
      return;
    }
    response.writeHead(206, {
      'content-length': 4000,
      'content-range': `bytes 6000-9999/${big.length}`,
    });
    response.end(big.subarray(6000, 10_000));
  });
  const pull = await world.serve(image);
  const reply = await pull(`blobs/${image.layers[0]?.digest}`, {
    headers: { range: 'bytes=1000-9999' },
  });
  assert.equal(reply.status, 206);
  assert.equal(reply.isWhole, false);
  assertBytes(reply.body, big.subarray(1000, 1000 + reply.body.length));
});
