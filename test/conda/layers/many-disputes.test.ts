/** Packages that have very many paths in common: the event loop stays free, and what is too much is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  packageParty,
  settleDisputes,
} from '../../../src/conda/layers/environment/settle-disputes.ts';
import { PathPacker } from '../../../src/conda/layers/making/package-facts.ts';
import type { MakePackage, PackageLayer } from '../../../src/conda/layers/making/package-maker.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';

type Fixture = Pick<PackageLayer, 'key' | 'pathHashes' | 'facts'> & { readonly packed: Buffer };

/** The layer of a package with these paths, as it is kept. */
function layerOf(name: string, paths: readonly string[], depends: readonly string[] = []): Fixture {
  const packer = new PathPacker();
  for (const path of paths) packer.add(path);
  const subject = { package: { name, subdir: 'linux-64' }, place: { prefix: '/opt/conda' } };
  const facts = JSON.stringify({ index: { depends } });
  const own = { key: name, subject, facts, pathHashes: packer.hashes() };
  return { ...own, packed: packer.paths() };
}

/** Returns the lost paths of each package that loses any. */
async function settle(layers: readonly Fixture[]): Promise<Map<string, readonly string[]>> {
  const lost = new Map<string, readonly string[]>();
  const make: MakePackage = async subject => {
    lost.set(subject.package.name, subject.place.lostPaths ?? []);
    return { subject } as PackageLayer;
  };
  const packed = new Map(layers.map(layer => [layer.key, layer.packed]));
  const kept = { paths: async (key: string) => packed.get(key) };
  const { signal } = new AbortController();
  await settleDisputes(
    layers.map(layer => packageParty(layer as unknown as PackageLayer, make, signal)),
    kept,
  );
  return lost;
}

/** Paths of so many files in a folder, sorted as they are installed. */
const filesIn = (folder: string, count: number) =>
  Array.from({ length: count }, (_, at) => `share/${folder}/${at}`).sort();

test('few and many paths are compared in the same way, here and on a thread', async () => {
  for (const count of [10, 60_000]) {
    const one = layerOf('one', [
      ...filesIn('one', count),
      'share/same',
      'share/up/a',
      'share/up/b',
    ]);
    const two = layerOf('two', [...filesIn('two', count), 'share/same', 'share/up'], ['one']);
    const three = layerOf('three', filesIn('three', count), ['two']);
    assert.deepEqual(
      await settle([one, two, three]),
      new Map([['one', ['share/same', 'share/up/a', 'share/up/b']]]),
    );
    assert.deepEqual(await settle([three, layerOf('one', filesIn('one', count))]), new Map());
  }
});

test('packages with very many paths in common do not hold the event loop', async () => {
  const common = filesIn('all', 20_000);
  const layers = ['one', 'two', 'three'].map(name =>
    layerOf(name, [...common, ...filesIn(name, 100_000)]),
  );
  let lost: Map<string, readonly string[]> | undefined;
  const { cpuMs } = await longestBlock(async () => {
    lost = await settle(layers);
  });
  assert.deepEqual(
    [...(lost ?? [])].map(([, paths]) => paths.length),
    [20_000, 20_000],
  );
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});

test('packages with too many paths in common are refused with their names', async () => {
  const common = filesIn('all', 60_000);
  const layers = ['one', 'two'].map(name => layerOf(name, common));
  const other = layerOf('other', filesIn('other', 10));
  const { cpuMs } = await longestBlock(() =>
    assert.rejects(settle([other, ...layers]), {
      message:
        'The packages one and two install very many files at the same paths: request only one of them',
    }),
  );
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});

test('packages with more files than can be compared are refused', async () => {
  const layers = Array.from({ length: 8 }, (_, at) => {
    const name = `package-${at}`;
    const hashes = Buffer.alloc(6 * 500_000);
    for (let hash = 0; hash < 500_000; hash += 1)
      hashes.writeUIntBE(2 * (hash + at * 500_000), hash * 6, 6);
    return { ...layerOf(name, []), pathHashes: hashes };
  });
  await assert.rejects(
    settle(layers),
    /have too many files to compare them: request fewer packages/,
  );
});
