import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { type Base, createBaseLibc, usualGlibc } from '../../../src/conda/base-libc.ts';
import { digestOf, parseDigest } from '../../../src/oci/digest.ts';
import { sourceOfBytes } from '../../../src/storage/content/byte-source.ts';
import { type Compression, type Entry, layerOf } from '../../corpus/layer.ts';
import { makeTempDir } from '../../world/temp-dir.ts';

const banner = (version: string) =>
  `\x7fELF\0GNU C Library (Debian GLIBC ${version}-9) stable release version ${version}.\nCopyright\0`;
const library = 'usr/lib/x86_64-linux-gnu/libc.so.6';
const signal = AbortSignal.timeout(300_000);

/** An image of layers, the lowest first, that counts how often each is opened. */
async function imageOf(layers: readonly (readonly Entry[])[], compression: Compression = 'gzip') {
  const opened: number[] = [];
  const made = await Promise.all(layers.map(entries => layerOf(entries, compression)));
  const image: Base = {
    digest: `sha256:${'1'.repeat(64)}`,
    name: 'docker.io/library/debian',
    layers: made.map(({ content: { mediaType, digest, size } }) => ({
      ...{ mediaType, size },
      digest: parseDigest(digest),
    })),
    async openLayer(layer) {
      const at = made.findIndex(({ content }) => content.digest === layer.digest);
      opened.push(at);
      return sourceOfBytes(Buffer.concat([...(made[at]?.content.read() ?? [])]));
    },
  };
  return { image, opened };
}

async function start(t: TestContext) {
  const directory = await makeTempDir('libc');
  t.after(() => directory.remove());
  const path = directory.join('conda', 'bases.json');
  return { path, libc: createBaseLibc(path) };
}

for (const compression of ['gzip', 'zstd', 'none'] as const) {
  test(`the version of glibc is read from its library (${compression})`, async t => {
    const { libc } = await start(t);
    const padding = 'x'.repeat(300_000);
    const { image } = await imageOf(
      [[{ name: library, content: `${padding}${banner('2.36')}` }]],
      compression,
    );
    const expected = { version: '2.36', isAssumed: false, hasEnvironment: false };
    assert.deepEqual(await libc.glibcOf(image, signal), expected);
  });
}

test('the version may stand in the name of the library', async t => {
  const { libc } = await start(t);
  const { image } = await imageOf([[{ name: './lib64/libc.so.6', link: 'libc-2.17.so' }]]);
  assert.equal((await libc.glibcOf(image, signal)).version, '2.17');
});

test('an upper layer wins', async t => {
  const { libc } = await start(t);
  const { image, opened } = await imageOf([
    [{ name: library, content: banner('2.31') }],
    [{ name: library, content: banner('2.41') }],
    [{ name: 'opt/sysroot/lib/libc.so.6', content: banner('2.12') }],
  ]);
  assert.equal((await libc.glibcOf(image, signal)).version, '2.41');
  assert.deepEqual(opened, [2, 1, 0]);
});

test('an environment at /opt/conda is found in any layer, also where an older version has read the image', async t => {
  const { libc, path } = await start(t);
  const environment = { name: './opt/conda/conda-meta/history', content: '' };
  const system = { name: library, content: banner('2.36') };
  for (const [number, layers] of [
    [[system, environment]],
    [[environment], [system]],
    [[system], [environment]],
  ].entries()) {
    const { image } = await imageOf(layers);
    const found = await libc.glibcOf({ ...image, digest: `sha256:${number}` }, signal);
    assert.deepEqual(found, { version: '2.36', isAssumed: false, hasEnvironment: true });
  }
  const { image } = await imageOf([[system, environment]]);
  await writeFile(path, JSON.stringify([[image.digest, { kind: 'glibc', version: '2.36' }]]));
  assert.equal((await createBaseLibc(path).glibcOf(image, signal)).hasEnvironment, true);
  const { image: other } = await imageOf([[system, { name: 'opt/conda/bin/sh', content: '' }]]);
  const own = { ...other, digest: 'sha256:other' };
  assert.equal((await libc.glibcOf(own, signal)).hasEnvironment, false);
});

test('an image with musl is refused', async t => {
  const { libc } = await start(t);
  const { image } = await imageOf([[{ name: 'lib/ld-musl-x86_64.so.1', content: 'x' }]]);
  await assert.rejects(libc.glibcOf(image, signal), /debian has musl .* choose a base image/);
});

test('a usual version is assumed for an image without a C library', async t => {
  const { libc } = await start(t);
  const { image } = await imageOf([[{ name: 'app', content: 'x' }]]);
  const expected = { version: usualGlibc, isAssumed: true, hasEnvironment: false };
  assert.deepEqual(await libc.glibcOf(image, signal), expected);
});

test('each image is read once, also by a server that starts later', async t => {
  const { libc, path } = await start(t);
  const { image, opened } = await imageOf([[{ name: library, content: banner('2.36') }]]);
  await Promise.all([libc.glibcOf(image, signal), libc.glibcOf(image, signal)]);
  assert.equal((await createBaseLibc(path).glibcOf(image, signal)).version, '2.36');
  assert.deepEqual(opened, [0]);
});

test('a damaged file of findings is as good as none', async t => {
  const { libc, path } = await start(t);
  const { image } = await imageOf([[{ name: library, content: banner('2.36') }]]);
  await libc.glibcOf(image, signal);
  await writeFile(path, (await readFile(path, 'utf8')).slice(0, 20));
  assert.equal((await createBaseLibc(path).glibcOf(image, signal)).version, '2.36');
});

test('a layer that is not a tar file has no library', async t => {
  const { libc } = await start(t);
  const bytes = Buffer.from('no tar file');
  const layer = { mediaType: 'application/octet-stream', size: bytes.length };
  const broken: Base = {
    ...{ digest: `sha256:${'2'.repeat(64)}`, name: 'registry.test/data' },
    layers: [{ ...layer, digest: digestOf(bytes) }],
    openLayer: async () => sourceOfBytes(bytes),
  };
  assert.equal((await libc.glibcOf(broken, signal)).isAssumed, true);
});

test('what a registry sends in place of a layer says nothing about the image', async t => {
  const { libc, path } = await start(t);
  const { image } = await imageOf([[{ name: library, content: banner('2.36') }]]);
  const packed = async (entries: readonly Entry[]) => {
    const { content } = await layerOf(entries, 'gzip');
    return Buffer.concat([...content.read()]);
  };
  const musl = await packed([{ name: 'lib/ld-musl-x86_64.so.1', content: 'x' }]);
  const [{ size = 0 } = {}] = image.layers;
  const lies = [
    Buffer.from('no tar file'),
    musl,
    // A decompressor stops before them.
    Buffer.concat([musl, Buffer.alloc(Math.max(0, size - musl.length))]),
    await packed([{ name: 'opt/conda/conda-meta/history', content: '' }]),
  ];
  for (const lie of lies) {
    const lying = { ...image, name: 'evil.test/debian', openLayer: async () => sourceOfBytes(lie) };
    await assert.rejects(libc.glibcOf(lying, signal), /wrong digest for the layer sha256:/);
  }
  const expected = { version: '2.36', isAssumed: false, hasEnvironment: false };
  assert.deepEqual(await libc.glibcOf(image, signal), expected);
  assert.deepEqual(await createBaseLibc(path).glibcOf(image, signal), expected);
});

test('a registry that does not answer keeps nobody else waiting for the same image', async t => {
  const { libc } = await start(t);
  const { image } = await imageOf([[{ name: library, content: banner('2.36') }]]);
  const stop = new AbortController();
  const silent = {
    ...image,
    name: 'silent.test/debian',
    openLayer: () => new Promise<never>(() => {}),
  };
  const waiting = assert.rejects(libc.glibcOf(silent, stop.signal), /left/);
  assert.equal((await libc.glibcOf(image, signal)).version, '2.36');
  stop.abort(new Error('left'));
  await waiting;
});
