/** Layers of packages in the eStargz form, judged by the library of stargz-snapshotter and by tar. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { stat, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { tarEnd, tarPadding, ustarHeader } from '../../../src/archives/tar-writer.ts';
import { reformLayer } from '../../../src/conda/layers/forms/reform-layer.ts';
import { createGzipWriter } from '../../../src/conda/layers/gzip/gzip-members.ts';
import type { InjectedLayer } from '../../../src/images/augment/image-config.ts';
import { digestOf } from '../../../src/oci/digest.ts';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { type CondaPackage, packPackage, placeholder } from '../../world/conda-package.ts';
import {
  sizeAnnotation,
  tocAnnotation,
  unpackedNodes,
  verifyEstargz,
} from '../../world/estargz.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { layersOf, solved } from './layer-world.ts';

const mebibyte = 2 ** 20;
const never = new AbortController().signal;
const estargz = { mode: 'estargz' } as const;

const odd: CondaPackage = {
  ...{ name: 'odd', version: '1.0' },
  files: [
    { name: 'bin/run', content: `#!${placeholder}/bin/sh\n`, mode: 0o755, mtime: 1_700_000_000 },
    { name: 'bin/again', hardLink: 'bin/run' },
    { name: 'lib/lib.so.1', content: 'library' },
    { name: 'lib/lib.so.1.0', hardLink: 'lib/lib.so.1' },
    { name: 'lib/lib.so', link: 'lib.so.1' },
    { name: 'lib/far', link: `${'../'.repeat(50)}naïve/${'x'.repeat(120)}` },
    { name: 'share/empty', content: '' },
    { name: 'share/a"b\\c\t\n\u2028é\u{1f600}', content: 'odd' },
    { name: `share/${'long/'.repeat(40)}${'n'.repeat(150)}`, content: 'long' },
    { name: 'share/whole', content: randomBytes(mebibyte) },
    { name: 'share/more', content: randomBytes(5 * mebibyte + 7) },
    { name: 'share/zeros', content: Buffer.alloc(3 * mebibyte) },
    { name: 'share/stargz.index.json', content: '{}' },
    { name: 'share/.no.prefetch.landmark', content: 'x' },
  ],
};

const others = ['one', 'two'].map(
  (name): CondaPackage => ({
    ...{ name, version: '1.0' },
    files: [{ name: `share/${name}`, content: name.repeat(5000) }],
  }),
);

test('each layer is verified by lazy clients, and has the files that others unpack', async t => {
  const packages = [odd, ...others];
  await using channels = await startCondaChannels({ test: packages });
  const world = await layersOf(t, `${channels.url}/test`);
  const all = await Promise.all(packages.map(async it => solved(await packPackage(it))));
  const environment = { packages: all, isReplaced: true };
  const made = await world.layers.make(environment, { signal: never, log() {} });
  const bytesOf = async ({ gzipDigest }: InjectedLayer) =>
    (await world.content.read(gzipDigest)) as Buffer;
  const lazy = await world.reform(made.layers, estargz, never);
  assert.equal(lazy.length, made.layers.length);
  const chunks = new Map<string, number | undefined>();
  for (const [at, layer] of lazy.entries()) {
    const usual = made.layers[at] as InjectedLayer;
    const bytes = await bytesOf(layer);
    const tar = gunzipSync(bytes);
    assert.equal(bytes.length, layer.gzipSize);
    assert.equal(digestOf(tar), layer.tarDigest);
    assert.equal(layer.holds, usual.holds);
    assert.equal(layer.annotations?.[sizeAnnotation], String(tar.length));
    const nodes = await verifyEstargz(bytes, layer.annotations?.[tocAnnotation] ?? '');
    for (const { path, chunks: count } of nodes) chunks.set(path.slice('opt/conda/'.length), count);
    const plain = nodes.map(({ chunks: _, ...node }) => node);
    // The number of links of a directory depends on the file system, and /opt is not in the lowest layer.
    const unlinked = (all: typeof plain) =>
      all
        .map(one => (one.type === 'dir' ? { ...one, links: 0 } : one))
        .map(one => (one.path === 'opt' ? { ...one, time: 0 } : one));
    assert.deepEqual(unlinked(plain), unlinked(await unpackedNodes(bytes)));
    assert.deepEqual(unlinked(plain), unlinked(await unpackedNodes(await bytesOf(usual))));
  }
  assert.deepEqual(
    ['share/whole', 'share/more', 'share/zeros', 'share/empty', 'lib/lib.so.1'].map(path =>
      chunks.get(path),
    ),
    [1, 6, 3, undefined, 1],
  );
  assert.ok(chunks.has('share/a"b\\c\t\n\u2028é\u{1f600}'));

  // A table that was changed, and a file that was: lazy clients would see both.
  const first = lazy.find(({ holds }) => holds?.includes('odd')) as InjectedLayer;
  const bytes = Buffer.from(await bytesOf(first));
  const toc = first.annotations?.[tocAnnotation] ?? '';
  await assert.rejects(
    verifyEstargz(
      bytes,
      toc.replace(/.$/, end => (end === '0' ? '1' : '0')),
    ),
  );
  bytes[3 * mebibyte] = (bytes[3 * mebibyte] as number) ^ 1;
  await assert.rejects(verifyEstargz(bytes, toc));
});

test('a layer of several packages has each directory once, and a table of any length', async () => {
  await using directory = await makeTempDir('long-table');
  const path = directory.join('layer');
  const shared = ['opt', 'opt/conda', 'opt/conda/share'].map(path =>
    ustarHeader({ path, kind: 'directory', mode: 0o755 }),
  );
  const files = 5000;
  const names = Array.from({ length: files }, (_, at) => `opt/conda/share/${at}-${'n'.repeat(60)}`);
  const tar = names.flatMap((path, at) => {
    const content = Buffer.from(`${at}\n`);
    const header = ustarHeader({ path, kind: 'file', mode: 0o644, size: content.length });
    return [...(at % 1000 === 0 ? shared : []), header, content, tarPadding(content.length)];
  });
  const usual: Buffer[] = [];
  {
    using gzip = createGzipWriter(member => usual.push(Buffer.from(member)));
    for (const bytes of [...tar, tarEnd]) gzip.write(bytes);
    gzip.end();
  }
  await writeFile(path, Buffer.concat(usual));
  const { size } = await stat(path);
  const pieces: Buffer[] = [];
  const order = { kind: 'form', layer: { path, size }, mode: 'estargz', level: 5 } as const;
  const { tarDigest, about } = reformLayer(order, piece => pieces.push(Buffer.from(piece)));
  const layer = Buffer.concat(pieces);
  assert.ok(pieces.length < 10, 'the files are not sent one by one');
  assert.equal(digestOf(gunzipSync(layer)), tarDigest);
  const nodes = await verifyEstargz(layer, JSON.parse(about?.facts ?? '{}').tocDigest);
  assert.equal(nodes.length, files + shared.length);
  const links = nodes.filter(({ type }) => type === 'dir').map(one => one.links);
  assert.deepEqual(links, [3, 3, 2], 'a directory that occurs again would count again');
  // Found by the footer: its table is longer than what libdeflate compresses at once.
  const toc = Number.parseInt(layer.toString('latin1', layer.length - 35, layer.length - 19), 16);
  const text = gunzipSync(layer.subarray(toc));
  assert.ok(text.length > 1.5 * mebibyte);
});

test('forms and levels have their own layers, made once, and the usual ones stay as they are', async t => {
  await using channels = await startCondaChannels({ test: others });
  const world = await layersOf(t, `${channels.url}/test`);
  const all = await Promise.all(others.map(async it => solved(await packPackage(it))));
  const { layers } = await world.make(all);
  const digestsIn = (some: readonly InjectedLayer[]) => some.map(({ gzipDigest }) => gzipDigest);
  const forms = [
    estargz,
    { mode: 'estargz', level: 9 },
    { mode: 'estargz', level: 0 },
    { mode: 'gzip', level: 9 },
    { mode: 'gzip', level: 0 },
  ] as const;
  const inForms = [];
  for (const form of forms) inForms.push(await world.reform(layers, form, never));
  const digests = new Set([layers, ...inForms].flatMap(digestsIn));
  assert.equal(digests.size, (forms.length + 1) * layers.length);
  for (const [at, { mode }] of forms.entries()) {
    for (const [position, layer] of (inForms[at] ?? []).entries()) {
      const bytes = (await world.content.read(layer.gzipDigest)) as Buffer;
      assert.equal(digestOf(gunzipSync(bytes)), layer.tarDigest);
      assert.equal(layer.annotations === undefined, mode === 'gzip');
      if (mode === 'gzip') assert.equal(layer.tarDigest, layers[position]?.tarDigest);
    }
  }
  assert.deepEqual(await world.reform(layers, { mode: 'gzip' }, never), layers);
  assert.deepEqual(await world.reform(layers, { mode: 'gzip', level: 5 }, never), layers);
  // The level that nobody specifies is the usual one.
  const again = await Promise.all([
    world.reform(layers, { mode: 'estargz', level: 5 }, never),
    world.reform(layers, estargz, never),
  ]);
  for (const one of again) assert.deepEqual(one, inForms[0]);
  assert.deepEqual(digestsIn((await world.make(all)).layers), digestsIn(layers));
});
