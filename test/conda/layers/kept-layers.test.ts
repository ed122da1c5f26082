/** Layers of packages are content: kept while they are used, made again when they are gone, never half made. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import type { CondaPackage } from '../../../src/conda/conda-package.ts';
import type { Digest } from '../../../src/oci/digest.ts';
import { sweep } from '../../../src/server/upkeep/sweep/sweep.ts';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { packPackage, placeholder } from '../../world/conda-package.ts';
import { eventually } from '../../world/eventually.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { digestsOf, layersOf, solved } from './layer-world.ts';

const packages = ['one', 'two'].map(name => ({
  ...{ name, version: '1.0' },
  files: [{ name: `share/${name}`, content: name.repeat(100_000) }],
}));

async function worldOf(t: TestContext, limits: Parameters<typeof layersOf>[2] = {}) {
  const channels = await startCondaChannels({ test: packages });
  t.after(() => channels.stop());
  const world = await layersOf(t, `${channels.url}/test`, limits);
  const all = await Promise.all(packages.map(async it => solved(await packPackage(it))));
  const leftovers = async () => (await readdir(world.directory.join('content/tmp'))).length;
  return { channels, all, leftovers, ...world };
}

test('a sweep keeps the layers that are known, and removes those that were not used for a time', async t => {
  const { make, all, rows, content, channels } = await worldOf(t);
  const digests = digestsOf(await make(all));
  const sweepAll = () => sweep({ content, ...rows }, { graceMs: -60_000 });
  assert.equal((await sweepAll()).removedCount, 0);
  const { packageLayers } = rows;
  // Each package by both of its digests, and the history.
  assert.equal(await packageLayers.purge(Date.now() + 60_000, Date.now() + 60_000), 5);
  assert.equal((await sweepAll()).removedCount, 3);
  assert.equal(channels.requests.length, 2);
  assert.deepEqual(digestsOf(await make(all)), digests);
  assert.equal(channels.requests.length, 4);
});

test('a layer whose content is gone is made again', async t => {
  const { make, all, content, channels, layers } = await worldOf(t);
  const first = await make(all);
  const [lost] = digestsOf(first);
  await content.discard(lost as Digest);
  assert.equal((await layers.missing({ packages: all })).length, 1);
  assert.deepEqual(digestsOf(await make(all)), digestsOf(first));
  assert.equal(channels.requests.length, 3);
});

test('a harmful or wrong archive ends the work for the environment, and leaves nothing', async t => {
  const { make, all, channels, leftovers, rows } = await worldOf(t, { maxUnpackedBytes: 200_000 });
  const [one, two] = all as [CondaPackage, CondaPackage];
  await assert.rejects(make(all), /Cannot install (?:one|two)-1\.0-0\.conda/);
  channels.files.set(new URL(one.url).pathname, Buffer.from('<html>'));
  await assert.rejects(make([one]), /wrong archive/);
  const other = { ...two, sha256: one.sha256, size: undefined };
  await assert.rejects(make([other]), /SHA-256/);
  await eventually('nothing is left', async () => (await leftovers()) === 0);
  assert.deepEqual(await rows.packageLayers.after(0, 10), []);
});

test('a disk that is full while a layer is written leaves nothing, and the next attempt succeeds', async t => {
  const { make, all, content, leftovers } = await worldOf(t);
  const ingest = content.ingest;
  let isFull = true;
  t.mock.method(content, 'ingest', async (...given: Parameters<typeof ingest>) => {
    const file = await ingest(...given);
    const write = async () => {
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    };
    return isFull ? Object.assign(Object.create(file), { write, abort: () => file.abort() }) : file;
  });
  await assert.rejects(make(all), { code: 'ENOSPC' });
  await eventually('nothing is left', async () => (await leftovers()) === 0);
  isFull = false;
  assert.equal((await make(all)).layers.length, 3);
});

test('fifty environments at once share what they have in common, and the event loop stays free', async t => {
  const count = 60;
  const many = Array.from({ length: count }, (_, at) => ({
    ...{ name: `tool-${at}`, version: '1.0' },
    files: Array.from({ length: 20 }, (_, file) => ({
      name: `share/tool-${at}/${file}`,
      content: `${placeholder} ${at} ${file}\n`.repeat(50),
    })),
  }));
  const channels = await startCondaChannels({ test: many });
  t.after(() => channels.stop());
  const world = await layersOf(t, `${channels.url}/test`);
  const all = await Promise.all(many.map(async it => solved(await packPackage(it))));
  const environments = Array.from({ length: 50 }, (_, at) =>
    all.filter((_, position) => (position * 7 + at) % 50 < 30),
  );
  const { cpuMs } = await longestBlock(async () => {
    const made = await Promise.all(environments.map(one => world.make(one)));
    for (const [at, { packages: layered }] of made.entries()) {
      assert.equal(layered.length, environments[at]?.length);
    }
  });
  assert.equal(channels.requests.length, count, 'each package is fetched once');
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});
