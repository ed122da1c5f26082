import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { imageOf } from '../corpus/image.ts';
import type { Layer } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { apptainerTool, openApptainer } from '../world/apptainer.ts';
import { startRegistry } from '../world/registry.ts';
import { keptFolder, textsOf } from '../world/run-folder.ts';
import { convert, describeFile } from './conversion.ts';
import { distributionLayer } from './distribution-layer.ts';
import { devices, nastyLayers } from './nasty-image.ts';
import { squashedTree, type Tree } from './squashed-tree.ts';
import { type TarPart, tarLayer } from './tar-file.ts';

interface Trees {
  readonly own: Tree;
  readonly theirs: Tree;
}

/** The tree of the image as Sluice makes it, and as `apptainer build` of the same image does. */
async function treesOf(layers: readonly Layer[], theirTree = apptainerTree): Promise<Trees> {
  const theirs = await theirTree(layers);
  await using conversion = await convert(layers);
  return { own: await conversion.tree(), theirs };
}

async function apptainerTree(layers: readonly Layer[]): Promise<Tree> {
  await using registry = await startRegistry();
  const pusher = await Pusher.open(registry, 'compared');
  await pusher.push(imageOf({ layers }), '1');
  await pusher.close();
  await using apptainer = await openApptainer();
  const sif = apptainer.join('built.sif');
  const build = ['build', '--no-https', sif, `docker://${registry.host}/compared:1`];
  const { code, stderr } = await apptainer.run(build, { timeoutMs: 300_000 });
  assert.equal(code, 0, stderr);
  const { squashfs } = await describeFile(sif);
  assert.ok(squashfs);
  // Awaited: the image is removed with this function.
  return await squashedTree(sif, squashfs.offset);
}

/** Returns what the same programs made of the same layers before: theirs takes half a minute of processor time. */
async function keptApptainerTree(layers: readonly Layer[]): Promise<Tree> {
  const programs = ['apptainer', 'mksquashfs'] as const;
  const sources = [
    ...layers.map(({ diffId }) => diffId),
    ...(await Promise.all(programs.map(name => digestOf(apptainerTool(name))))),
    ...textsOf('apptainer.ts', '../sif/squashed-tree.ts', '../sif/against-apptainer.test.ts'),
  ];
  const folder = await keptFolder('apptainer-tree', sources, async into => {
    await writeFile(join(into, 'tree.json'), JSON.stringify(await apptainerTree(layers)));
  });
  return JSON.parse(await readFile(join(folder, 'tree.json'), 'utf8'));
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** Every path in which the two differ; what is in `/.singularity.d` is meant to. */
function differences({ own, theirs }: Trees): Record<string, (string | undefined)[]> {
  const names = new Set([...Object.keys(own), ...Object.keys(theirs)]);
  return Object.fromEntries(
    [...names]
      .filter(name => own[name] !== theirs[name] && !name.startsWith('.singularity.d/'))
      .map(name => [name, [own[name], theirs[name]]]),
  );
}

test('Apptainer makes the same tree of an image with every kind of entry', async () => {
  const trees = await treesOf([...(await nastyLayers()), tarLayer(devices)]);
  assert.ok(Object.keys(trees.theirs).length > 100);
  const expected = Object.fromEntries(
    Object.entries(differences(trees)).filter(([name, [own, theirs]]) => {
      // Apptainer gives directories that no layer has what its own umask leaves of 0777.
      const isImplied = /^(?:implied|long-pax|long-gnu)(?:\/|$)/.test(name);
      return !(isImplied && own === 'directory 0755' && theirs?.startsWith('directory 07'));
    }),
  );
  const empty = 'e3b0c44298fc1c14';
  assert.deepEqual(expected, {
    // Outside /dev devices are what they are in an image that an ordinary user builds.
    'odd/zero': [`file 0666 0 ${empty}`, 'character 0666 1:5'],
    'odd/loop': [`file 0660 0 ${empty}`, 'block 0660 7:0'],
  });
});

test('Apptainer makes the same tree of a distribution', async () => {
  const changes = tarLayer([
    { name: 'usr/share/.wh.doc', content: '' },
    { name: 'etc/', type: 'directory', mode: 0o755 },
    { name: 'etc/motd', content: 'changed\n' },
    { name: 'bin/sh-too', type: 'link', link: 'bin/dash' },
    { name: 'opt/.wh..wh..opq', content: '' },
  ]);
  const trees = await treesOf([await distributionLayer(), changes], keptApptainerTree);
  assert.ok(Object.keys(trees.theirs).length > 4000);
  assert.equal(trees.own['usr/share/doc'], undefined);
  assert.equal(trees.own['usr/bin/sh-too'], trees.own['usr/bin/dash']);
  assert.deepEqual(differences(trees), {});
});

const base: readonly TarPart[] = [
  { name: 'real/', type: 'directory' },
  { name: 'real/old', content: 'x' },
  { name: 'file', content: 'x' },
  { name: 'linked', type: 'symlink', link: 'real' },
  { name: 'absolute', type: 'symlink', link: '/real' },
  { name: 'climbing', type: 'symlink', link: '../../../real' },
];

test('Apptainer makes the same tree of layers from other tools', async () => {
  const upper: readonly (readonly TarPart[])[] = [
    [{ name: 'linked/new', content: '1' }],
    [{ name: 'absolute/new', content: '2' }],
    [{ name: 'climbing/new', content: '3' }],
    [{ name: 'linked/.wh.old', content: '' }],
    [
      { name: 'real/new', content: '4' },
      { name: 'real/.wh..wh..opq', content: '' },
    ],
    [
      { name: 'hard', type: 'link', link: 'file' },
      { name: 'file', content: 'new' },
    ],
    [
      { name: 'file', content: 'newer' },
      { name: '.wh.file', content: '' },
    ],
    [
      { name: 'twice', content: '1' },
      { name: 'twice', content: '22' },
    ],
    [
      { name: 'linked/', type: 'directory', mode: 0o700 },
      { name: 'linked/new', content: '5' },
    ],
    [
      { name: 'old/', type: 'v7' },
      { name: 'old/file', type: 'v7', content: 'x' },
    ],
    [{ name: './', type: 'directory', mode: 0o711 }],
    [{ name: 'real/below/', type: 'directory' }, { name: 'real/below/x' }],
    [{ name: 'real/below/.wh.', content: '' }],
  ];
  const trees = await treesOf([tarLayer(base), ...upper.map(parts => tarLayer(parts))]);
  assert.deepEqual(differences(trees), {});
});

test('an older and a newer unsquashfs read the same tree', async () => {
  await using conversion = await convert([...(await nastyLayers()), tarLayer(devices)]);
  assert.deepEqual(await conversion.tree(apptainerTool('unsquashfs')), await conversion.tree());
});
