import assert from 'node:assert/strict';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { digestOf } from '../../src/oci/digest.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { startFaultWorld } from './fault-world.ts';
import { emptyLayer, pattern } from './scripted-upstream.ts';

const blobBytes = 300_000;
const cacheBytes = 1_000_000;

test('copies of blobs stay below cacheBytes; the least recently used are removed first', async () => {
  await using world = await startFaultWorld({ cacheBytes: `${cacheBytes} B`, upstream: {} });
  const { cache } = world.upstreams;
  const blobs = Array.from({ length: 8 }, (_, at) => pattern(blobBytes, `swept ${at}`));
  const image = cache.image('swept/app', blobs);
  const pull = await world.serve(image, {
    layers: [{ location: `data:${emptyLayer.toString('base64')}` }],
  });
  const size = async () => {
    const root = join(world.sluice.data, 'content', 'blobs');
    const entries = await readdir(root, { recursive: true });
    const sizes = await Promise.all(
      entries.map(entry => stat(join(root, entry)).catch(() => null)),
    );
    return sizes.reduce((sum, found) => sum + (found?.isFile() ? found.size : 0), 0);
  };
  const documents = await size();
  const get = async (at: number) => {
    const { body, isWhole } = await pull(`blobs/${image.layers[at]?.digest}`);
    assert.ok(isWhole);
    assertBytes(body, blobs[at]);
  };
  const pathOf = (digest: string) => {
    const hex = digest.slice('sha256:'.length);
    return join(world.sluice.data, 'content', 'blobs', 'sha256', hex.slice(0, 2), hex);
  };
  /** Fetches a blob, and waits until its copy is kept and those beyond the limit are gone. */
  const getAndKeep = async (at: number) => {
    await get(at);
    const path = pathOf(`${image.layers[at]?.digest}`);
    await eventually('the copy is kept', () => stat(path).then(Boolean, () => false));
    await eventually('the sweep is done', async () => (await size()) - documents <= cacheBytes);
  };
  const fetches = (at: number) => cache.count('GET', `${image.layers[at]?.digest}`);
  for (let at = 0; at < 5; at += 1) {
    await getAndKeep(at);
    // Used again and again, the first one stays.
    await get(0);
  }
  assert.equal(fetches(0), 1);
  await get(4);
  assert.equal(fetches(4), 1, 'the latest is still here');
  await get(1);
  assert.equal(fetches(1), 2, 'the least recently used was swept');

  await Promise.all([2, 3, 5, 6, 7].map(get));
  await eventually('the sweep is done', async () => (await size()) - documents <= cacheBytes);
  // Other images have the layer of a request too, and its copy is swept with theirs.
  const layer = gzipSync(gunzipSync(emptyLayer), { level: 1 });
  const place = `blobs/${digestOf(layer)}`;
  const ask = (env: string) =>
    world.serve(image, { env: [env], layers: [{ location: `data:${layer.toString('base64')}` }] });
  const other = await world.serve(cache.image('swept/other', [layer]));
  const sweepAll = async () => {
    assertBytes((await other(place)).body, layer);
    for (const at of [0, 1, 2, 3, 4]) await getAndKeep(at);
  };
  const before = await ask('BEFORE=1');
  await sweepAll();
  assertBytes((await before(place)).body, layer, 'the layer was here before its copy');
  await rm(pathOf(digestOf(layer)));
  assertBytes((await other(place)).body, layer);
  const after = await ask('AFTER=1');
  await sweepAll();
  assertBytes((await after(place)).body, layer, 'the copy was here before the layer');

  const { body } = await pull('manifests/latest');
  const { config, layers } = JSON.parse(body.toString());
  assert.equal((await pull(`blobs/${config.digest}`)).status, 200, 'a sweep takes copies only');
  assertBytes((await pull(`blobs/${layers.at(-1).digest}`)).body, emptyLayer);
});
