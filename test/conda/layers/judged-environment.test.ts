/** The layers of an environment put together are the tree that rattler, the engine of pixi, installs. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { type CondaPackage, packPackage, placeholder } from '../../world/conda-package.ts';
import { pythonPackages } from '../../world/conda-python.ts';
import { installByRattler } from '../../world/rattler.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { outcomeOf } from '../installing/judged.ts';
import { layersOf, solved, unpackLayers } from './layer-world.ts';

const many: CondaPackage[] = Array.from({ length: 95 }, (_, at) => ({
  ...{ name: `tool-${at}`, version: '1.0', format: at % 10 === 0 ? 'tar.bz2' : 'conda' },
  files: [
    { name: `bin/tool-${at}`, content: `#!${placeholder}/bin/sh\necho ${at}\n`, mode: 0o755 },
    { name: `share/tools/${at}`, content: 'text' },
    { name: `lib/libtool-${at}.so`, link: `libtool-${at}.so.1` },
  ],
}));
// The first requires the second, and so keeps what both have.
const rivals: CondaPackage[] = [
  {
    ...{ name: 'rival-a', version: '1.0', depends: ['rival-b'] },
    files: [
      { name: 'share/rivals/common', content: 'a' },
      { name: 'share/rivals/a', content: 'a' },
    ],
  },
  {
    ...{ name: 'rival-b', version: '1.0' },
    files: [
      { name: 'share/rivals/common', content: 'b' },
      { name: 'share/rivals/b', content: 'b' },
      { name: 'share/tools/3', content: 'not the text of the tool' },
    ],
  },
];
const library: CondaPackage = {
  ...{ name: 'library', version: '2.0', noarch: 'python', depends: ['python'] },
  entryPoints: ['library = library:main'],
  files: [{ name: 'site-packages/library/__init__.py', content: 'def main(): print("hello")\n' }],
};

test('a large environment with rivals and Python is what rattler installs, in whatever order its layers stand', async t => {
  const packages = [...many, ...rivals, library, ...pythonPackages()];
  const packed = await Promise.all(packages.map(packPackage));
  await using channels = await startCondaChannels({ test: packages });
  await using directory = await makeTempDir('judged');
  const channel = `${channels.url}/test`;
  const target = directory.join('rattler');
  await installByRattler(packed, {
    ...{ prefix: '/opt/conda', target, cache: directory.join('cache'), channel },
  });
  const expected = outcomeOf(target, true).tree;

  const world = await layersOf(t, channel);
  const made = await world.make(packed.map(solved));
  assert.ok(made.layers.length <= 91);
  for (const [name, layers] of Object.entries({
    ours: made.layers,
    reversed: made.layers.toReversed(),
  })) {
    const root = directory.join(name);
    execFileSync('mkdir', [root]);
    await unpackLayers(world.content, layers, root);
    const tree = outcomeOf(join(root, 'opt/conda'), true).tree;
    const paths = new Set([...Object.keys(tree), ...Object.keys(expected)]);
    const different = [...paths].filter(path => tree[path] !== expected[path]);
    assert.deepEqual(
      different.map(path => [path, tree[path], expected[path]]),
      [],
    );
  }
  // Asked again, the disputes are settled without a download.
  const fetched = channels.requests.length;
  assert.deepEqual((await world.make(packed.map(solved))).layers, made.layers);
  assert.equal(channels.requests.length, fetched);
});
