import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { contentOf, mediaTypes, sha256 } from '../corpus/content.ts';
import { type Layer, retyped } from '../corpus/layer.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';
import { convert, sourceOf } from './conversion.ts';
import { devices, nastyLayers } from './nasty-image.ts';
import { layerOfTar, tarLayer, tarOf } from './tar-file.ts';

const file = (content: string, mode = '0644') =>
  `file ${mode} ${Buffer.byteLength(content)} ${createHash('sha256').update(content).digest('hex').slice(0, 16)}`;

test('layers of all compressions become one tree, for any content', async () => {
  await using conversion = await convert([...(await nastyLayers()), tarLayer(devices)]);
  const tree = await conversion.tree();
  const long = `${'very-long-name-'.repeat(6)}/${'x'.repeat(200)}`;
  const expected = {
    '/': 'directory 0755',
    a: 'directory 0755',
    'a/kept': file('kept'),
    'a/gone': undefined,
    'a/changed': file('second'),
    'gone-tree/deep': undefined,
    'gone-tree/back': file('there again'),
    opaque: 'directory 0711',
    'opaque/hidden': undefined,
    'opaque/sub': undefined,
    'opaque/shown': file('shown'),
    'was-dir': file('now a file'),
    'was-file/below': file('now there'),
    'was-link': 'directory 0700',
    'links/one': file('shared', '0640'),
    'links/twice-removed': file('shared', '0640'),
    'links/replaced': file('content of the second', '0700'),
    'links/stays': file('content of the first', '0755'),
    'links/gone-target': undefined,
    'links/left-over': file('its other name stays'),
    'links/to-symbolic': 'symlink one',
    odd: 'directory 1777',
    'odd/setuid': file('x', '4755'),
    'odd/setgid': file('x', '2711'),
    'odd/no-mode': file('nobody may read this', '0000'),
    'odd/no-mode-dir/file': file('below it'),
    'odd/owner': file('x'),
    'odd/fifo': 'fifo 0622',
    'odd/empty': file(''),
    'odd/new\nline': file('x'),
    'odd/quote"and\'back\\slash': file('x'),
    'odd/ leading and trailing ': file('x'),
    [Buffer.from('odd/ümläut-日本').toString('latin1')]: file('x'),
    'odd/latin-\xe9': file('not UTF-8'),
    [`odd/${'latin-\xe9'.repeat(30)}`]: file('x'),
    [`long-pax/${long}`]: file('x'),
    [`long-gnu/${long}`]: file('x'),
    'odd/long-target': `symlink ../nowhere/${long}`,
    'odd/long-absolute': `symlink /nowhere/${long}`,
    'odd/dots': 'symlink ./././../..//a',
    absolute: file('x'),
    climbing: file('x'),
    implied: 'directory 0755',
    'implied/by/a/file': file('x'),
    'dev/null': 'character 0666 1:3',
    'odd/zero': file('', '0666'),
    'odd/loop': file('', '0660'),
    '.singularity.d': 'directory 0755',
    'etc/hosts': file(''),
    proc: 'directory 0755',
  };
  const found = Object.fromEntries(Object.keys(expected).map(name => [name, tree[name]]));
  assert.deepEqual(found, expected);
});

test('the file matches its description, and describes the image', async () => {
  const created = '2024-02-29T12:00:00Z';
  const config = { created, config: { Env: ['A=1'], Labels: { maker: 'me' } } };
  const layers = [tarLayer([{ name: 'a', content: 'x' }])];
  await using conversion = await convert(sourceOf(layers, { config, architecture: 'arm64' }));
  const { sif, directory, lines } = conversion;
  const bytes = await readFile(sif.path);
  assert.equal(sif.size, bytes.length);
  assert.equal(sif.digest, sha256(bytes));
  assert.deepEqual(await readdir(directory.path), ['image.sif']);
  const described = await conversion.describe();
  assert.equal(described.architecture, 'arm64');
  assert.equal(described.createdAt, Date.parse(created));
  assert.match(
    described.id,
    /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  );
  assert.deepEqual(described.ociConfig, config.config);
  assert.match(described.definition ?? '', /^bootstrap: docker\nfrom: registry.test\/image:1\n/);
  const { offset = 0, size = 0 } = described.squashfs ?? {};
  assert.equal(offset % 4096, 0);
  assert.equal(offset + size, sif.size);
  for (const expected of [
    /^fetching layer 1 of 1, [\d.]+ [kM]?B$/,
    /^read layer 1 of 1, 1 entries, in \d+\.\d s$/,
    /^writing squashfs, \d+ entries, [\d.]+ [kM]?B$/,
    /^made the SIF file, [\d.]+ [kM]?B, in \d+\.\d s$/,
  ]) {
    assert.ok(
      lines.some(line => expected.test(line)),
      `${expected} in ${lines.join('\n')}`,
    );
  }
});

test('everything belongs to root; hard links and times stay', async () => {
  const parts = [
    { name: 'one', content: 'shared', uid: 1000, mtime: 1_000_000_000 },
    { name: 'two', type: 'link', link: 'one' },
    { name: 'before', content: 'x', mtime: -5, numbers: 'base-256' },
    { name: 'dir', type: 'directory', mtime: 1_000_000_001 },
    // After the image was made.
    { name: 'newer', content: 'x', mtime: 1_735_689_600 },
  ] as const;
  const later = [{ name: 'dir/three', type: 'link', link: 'two' }] as const;
  await using conversion = await convert([tarLayer(parts), tarLayer(later)]);
  const { squashfs } = await conversion.describe();
  await using out = await makeTempDir('unsquashed');
  const root = out.join('root');
  const place = ['-offset', String(squashfs?.offset), '-dest', root, conversion.sif.path];
  await promisify(execFile)(requireCommand('unsquashfs'), ['-quiet', '-no-progress', ...place]);
  const format = '%P %U:%G %n %T@ %i\n';
  const { stdout } = await promisify(execFile)('find', [root, '-printf', format]);
  const lines = stdout.split('\n').map(line => line.split(' '));
  const names = ['', 'one', 'two', 'dir/three', 'before', 'dir', 'newer'];
  const [top, one, two, three, before, dir, newer] = names.map(name =>
    lines.find(([path]) => path === name)?.slice(1),
  );
  assert.equal(top?.[0], '0:0');
  assert.deepEqual(one?.slice(0, 3), ['0:0', '3', '1000000000.0000000000']);
  assert.deepEqual(two, one);
  assert.deepEqual(three, one);
  assert.equal(before?.[2], '0.0000000000');
  assert.equal(dir?.[2], '1000000001.0000000000');
  assert.equal(newer?.[2], '1735689600.0000000000');
});

test('a layer is read by its content, under every media type', async () => {
  const tar = tarOf([
    { name: 'dir/', type: 'directory' },
    { name: 'dir/file', content: 'x' },
  ]);
  const cut = 700;
  const layer = layerOfTar(tar);
  const members = Buffer.concat([gzipSync(tar.subarray(0, cut)), gzipSync(tar.subarray(cut))]);
  const frames = [tar.subarray(0, cut), tar.subarray(cut)].map(part => zstdCompressSync(part));
  const skipped = Buffer.from('502a4d18030000000102', 'hex');
  const packed = (type: string, bytes: Buffer): Layer => {
    return { content: contentOf(type, bytes), diffId: sha256(tar) };
  };
  const variants: readonly Layer[] = [
    layer,
    layerOfTar(tar, 'zstd'),
    layerOfTar(tar, 'none'),
    packed(`${mediaTypes.ociLayer}+gzip`, members),
    packed(`${mediaTypes.ociLayer}+zstd`, Buffer.concat([...frames, skipped, Buffer.alloc(1)])),
    retyped(layer, mediaTypes.dockerLayer),
    retyped(layer, 'application/vnd.docker.container.image.rootfs.diff+x-gtar'),
    // What some tools push: not what it is called.
    packed(mediaTypes.dockerLayer, tar),
    packed(mediaTypes.dockerLayer, zstdCompressSync(tar)),
  ];
  for (const variant of variants) {
    await using conversion = await convert([variant]);
    const tree = await conversion.tree();
    assert.equal(tree['dir/file'], file('x'), variant.content.mediaType);
  }
});

test('the same image gives the same bytes: at another time, with more threads, in another order', async () => {
  const layers = [...(await nastyLayers()), tarLayer([{ name: 'future', mtime: 4_000_000_000 }])];
  await using first = await convert(layers, { processors: 1 });
  await sleep(1100);
  const slowly = sourceOf(layers);
  const source = {
    ...slowly,
    async openLayer(...args: Parameters<typeof slowly.openLayer>) {
      await sleep(args[0].digest === layers[0]?.content.digest ? 300 : 0);
      return slowly.openLayer(...args);
    },
  };
  await using second = await convert(source, { processors: 4 });
  assert.equal(second.sif.digest, first.sif.digest);
  const definition = { text: 'bootstrap: docker\nfrom: other\n', headers: {}, labels: {} };
  await using other = await convert(layers, { definition });
  assert.notEqual(other.sif.digest, first.sif.digest);
});

test('file times stay if an image, and one of its files, is dated in the future', async () => {
  const future = new Date(Date.now() + 3_600_000);
  const made = { created: future.toISOString(), architecture: 'amd64', config: {} };
  const layer = tarLayer([
    { name: 'older', content: 'x', mtime: 1_600_000_000 },
    { name: 'newer', content: 'x', mtime: 1_700_000_000 },
    { name: 'future', content: 'x', mtime: 4_000_000_000 },
  ]);
  await using conversion = await convert(sourceOf([layer], { config: made }));
  const { squashfs } = await conversion.describe();
  const args = ['-quiet', '-no-progress', '-offset', String(squashfs?.offset), '-dest'];
  const root = conversion.directory.join('root');
  await promisify(execFile)(requireCommand('unsquashfs'), [...args, root, conversion.sif.path]);
  const timeOf = async (name: string) => (await stat(`${root}/${name}`)).mtimeMs / 1000;
  assert.equal(await timeOf('older'), 1_600_000_000);
  assert.equal(await timeOf('newer'), 1_700_000_000);
  assert.equal(await timeOf('future'), 4_000_000_000);
});

test('the environment that a script of the image sets is reported, if it is in the image', async () => {
  const path = '.singularity.d/env/91-environment.sh';
  const first = tarLayer([{ name: path, content: 'export A=1\n' }]);
  const second = tarLayer([
    { name: `./${path}`, content: 'export A=é\n' },
    { name: 'other/91-environment.sh', content: 'export A=3\n' },
  ]);
  const gone = tarLayer([{ name: '.singularity.d/env/.wh.91-environment.sh', content: '' }]);
  const large = tarLayer([{ name: path, content: '#'.repeat(300_000) }]);
  const told = async (...layers: readonly Layer[]) => {
    await using conversion = await convert(layers);
    const { metadata } = await conversion.describe();
    const { data } = metadata as { data: { attributes: { environment: Record<string, string> } } };
    return data.attributes.environment[`/${path}`];
  };
  assert.equal(await told(first), 'export A=1');
  assert.equal(await told(first, second), 'export A=é');
  assert.equal(await told(first, gone), undefined);
  assert.equal(await told(first, large), undefined);
  assert.equal(await told(tarLayer([])), undefined);
});

test('images without layers, without files, without a date, or with a wrong one', async () => {
  const empty = tarLayer([]);
  for (const config of [{}, { created: '0001-01-01T00:00:00Z' }, { created: 'yesterday' }]) {
    await using conversion = await convert(sourceOf([empty], { config }));
    assert.equal((await conversion.describe()).createdAt, 0);
  }
  await using conversion = await convert([]);
  assert.equal((await conversion.tree())['.singularity.d/env'], 'directory 0755');
});

test('a layer on disk is read there and stays', async () => {
  const [local, remote] = [tarLayer([{ name: 'a' }]), tarLayer([{ name: 'b' }])];
  await using directory = await makeTempDir('local');
  const path = directory.join('layer');
  await writeFile(path, Buffer.concat([...local.content.read()]));
  const opened: string[] = [];
  const usual = sourceOf([local, remote]);
  await using conversion = await convert({
    ...usual,
    localPath: async ({ digest }) => (digest === local.content.digest ? path : undefined),
    async openLayer(layer, signal) {
      opened.push(layer.digest);
      return usual.openLayer(layer, signal);
    },
  });
  const tree = await conversion.tree();
  assert.ok(tree.a && tree.b);
  assert.deepEqual(opened, [remote.content.digest]);
  assert.equal((await readFile(path)).length, local.content.size);
});

test("an image's own files at the paths of runtime files", async () => {
  const layer = tarLayer([
    { name: 'conf/', type: 'directory' },
    { name: 'etc', type: 'symlink', link: 'conf' },
    { name: 'conf/hosts', content: 'own', mode: 0o400 },
    { name: 'tmp/', type: 'directory', mode: 0o1777 },
    { name: 'environment', content: 'own' },
    { name: '.singularity.d/env/50-own.sh', content: 'own' },
    { name: '.singularity.d/runscript', content: 'own' },
  ]);
  await using conversion = await convert([layer]);
  const tree = await conversion.tree();
  assert.equal(tree.etc, 'symlink conf');
  assert.equal(tree['conf/hosts'], file(''));
  assert.equal(tree['conf/resolv.conf'], file(''));
  assert.equal(tree.tmp, 'directory 1777');
  assert.equal(tree.environment, file('own'));
  assert.equal(tree['.singularity.d/env/50-own.sh'], file('own'));
  assert.notEqual(tree['.singularity.d/runscript'], file('own'));
});
