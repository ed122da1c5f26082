/** Two thousand clients of one blob: their cost, and their effect on other clients. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { call } from '../faults/http-client.ts';
import {
  pattern,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { type Sluice, startMeasuredSluice } from '../world/sluice.ts';
import { startCrowd } from './crowd.ts';

const mebibyte = 1024 * 1024;
// On a quiet machine it is about 350; a busy one collects garbage later.
const mostMemory = 450;
const blob = pattern(3 * mebibyte, 'crowd');

let cache: ScriptedUpstream;
let relay: ScriptedUpstream;
let sluice: Sluice;

before(async () => {
  [cache, relay] = await Promise.all([startScriptedUpstream(), startScriptedUpstream()]);
});
after(async () => {
  await Promise.all([cache?.stop(), relay?.stop()]);
});
// A new server for each crowd: garbage of one must not count for the next.
beforeEach(async () => {
  sluice = await startMeasuredSluice({
    config: {
      limits: { pulls: { anonymous: 'off' } },
      registries: {
        [cache.host]: { plainHttp: true, blobs: 'cache' },
        [relay.host]: { plainHttp: true, blobs: 'relay' },
      },
    },
  });
});
afterEach(async () => {
  await sluice?.stop();
});

async function urlsOf(upstream: ScriptedUpstream, repository: string) {
  const image = upstream.image(repository, [blob]);
  const { targetImage } = await sluice.request({ containerImage: image.name });
  return {
    blob: sluice.at(targetImage, `blobs/${image.layers[0]?.digest}`),
    manifest: sluice.at(targetImage, 'manifests/latest'),
  };
}

/** The most that the server has had in memory since it began, in MiB. */
function peakMemory(): number {
  const status = readFileSync(`/proc/${sluice.process.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

test('2,000 clients of a cached blob use bounded memory, and manifests are answered meanwhile', async t => {
  const urls = await urlsOf(cache, 'crowd/cached');
  assert.ok((await call(urls.blob)).isWhole);
  using crowd = startCrowd([urls.blob], 2000, 0);
  await crowd.begun;
  const times: number[] = [];
  let isOver = false;
  const done = crowd.done.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    const began = performance.now();
    assert.equal((await call(urls.manifest)).status, 200);
    times.push(performance.now() - began);
    // A loop without a pause takes half the processor time of the machine from the crowd.
    await sleep(20);
  }
  assert.deepEqual(await done, { whole: 2000, failed: 0 });
  const at95 = times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
  t.diagnostic(
    `${times.length} manifests, 95 % within ${at95?.toFixed(0)} ms; ${peakMemory().toFixed(0)} MiB`,
  );
  assert.ok(peakMemory() < mostMemory, `${peakMemory()} MiB`);
});

test('2,000 clients that stop reading after the first bytes use bounded memory', async () => {
  const urls = await urlsOf(cache, 'crowd/silent');
  assert.ok((await call(urls.blob)).isWhole);
  using crowd = startCrowd([urls.blob], 2000, 1);
  await crowd.begun;
  assert.equal((await call(urls.manifest)).status, 200);
  assert.ok(peakMemory() < mostMemory, `${peakMemory()} MiB`);
});

test('200 clients of a relayed blob share two upstream transfers', async () => {
  const urls = await urlsOf(relay, 'crowd/relayed');
  using crowd = startCrowd([urls.blob], 200, 2 * mebibyte);
  assert.deepEqual(await crowd.done, { whole: 200, failed: 0 });
  assert.ok(relay.count('GET', '/blobs/') <= 2, `${relay.count('GET', '/blobs/')} transfers`);
  assert.ok(peakMemory() < mostMemory, `${peakMemory()} MiB`);
});

test('a registry gets no more connections than the setting allows, and every client gets its blob', async () => {
  const most = 3;
  await using modest = await startMeasuredSluice({
    config: {
      upstream: { connections: most, headersTimeout: '120s' },
      registries: { [relay.host]: { plainHttp: true, blobs: 'relay' } },
    },
  });
  let open = 0;
  let peak = 0;
  const blobs = Array.from({ length: 24 }, (_, at) => pattern(200_000, `one of many ${at}`));
  const urls = await Promise.all(
    blobs.map(async (bytes, at) => {
      const image = relay.image(`crowd/many-${at}`, [bytes]);
      relay.on(
        `GET /v2/crowd/many-${at}/blobs/${image.layers[0]?.digest}`,
        (_request, response) => {
          open += 1;
          peak = Math.max(peak, open);
          response.once('close', () => {
            open -= 1;
          });
          response.writeHead(200, { 'content-length': bytes.length });
          response.write(bytes.subarray(0, 1000));
          setImmediate(() => response.end(bytes.subarray(1000)));
        },
      );
      const { targetImage } = await modest.request({ containerImage: image.name });
      return modest.at(targetImage, `blobs/${image.layers[0]?.digest}`);
    }),
  );
  const replies = await Promise.all(urls.map(url => call(url)));
  for (const [at, reply] of replies.entries()) assertBytes(reply.body, blobs[at]);
  assert.ok(peak <= most, `${peak} connections`);
});
