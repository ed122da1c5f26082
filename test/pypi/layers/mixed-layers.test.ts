/** Wheels become layers above those of Conda packages: each once, the same bytes everywhere, over a real connection. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { createKeptLayers } from '../../../src/conda/layers/kept-layers.ts';
import { noTally } from '../../../src/foundation/telemetry/tally.ts';
import { createMixedLayers } from '../../../src/pypi/layers/environment-layers.ts';
import { createWheelThreads } from '../../../src/pypi/layers/wheel-threads.ts';
import type { WheelFile } from '../../../src/pypi/wheel-file.ts';
import {
  channelUrl,
  digestsOf,
  layersOf,
  solved,
  unpackLayers,
  usualLimits,
} from '../../conda/layers/layer-world.ts';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { type CondaPackage, packPackage } from '../../world/conda-package.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { type MadeWheel, wheelOf } from '../wheels/made-wheel.ts';

const site = 'lib/python3.12/site-packages';
const python: CondaPackage = {
  ...{ name: 'python', version: '3.12.1' },
  files: [{ name: 'bin/python3.12', content: 'python', mode: 0o755 }],
};
const library: CondaPackage = {
  ...{ name: 'library', version: '1.0', noarch: 'python', depends: ['python'] },
  files: [
    { name: 'site-packages/library.py', content: 'of conda' },
    { name: 'site-packages/shared.py', content: 'of conda' },
  ],
};

/** A server with packages of Conda and wheels, and what makes layers of them. */
async function worldOf(t: TestContext, made: readonly MadeWheel[], packages = [python, library]) {
  const channels = await startCondaChannels({ test: packages });
  t.after(() => channels.stop());
  const wheels = made.map((one): WheelFile => {
    const { fileName, bytes } = wheelOf(one);
    channels.files.set(`/test/wheels/${fileName}`, bytes);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const { name = 'made', version = '1.0' } = one;
    const url = `${channelUrl}/wheels/${fileName}`;
    return { name, version, fileName, url, size: bytes.length, sha256 };
  });
  const conda = await Promise.all(packages.map(async it => solved(await packPackage(it))));
  return { channels, wheels, conda, ...(await mixedOf(t, `${channels.url}/test`)) };
}

async function mixedOf(t: TestContext, mirror: string, limits: Partial<typeof usualLimits> = {}) {
  const world = await layersOf(t, mirror, limits);
  const { content, rows, layers: packageLayers, fetchArchive } = world;
  const threads = createWheelThreads();
  t.after(() => threads.close());
  const mixed = createMixedLayers({
    packageLayers,
    kept: createKeptLayers({
      ...{ content, cachedBlobs: rows.cachedBlobs, rows: rows.packageLayers, threads },
    }),
    ...{ fetchWheel: fetchArchive, limits: { ...usualLimits, ...limits }, tally: noTally },
  });
  const { signal } = new AbortController();
  const log: string[] = [];
  const make = (environment: Parameters<typeof mixed.make>[0]) =>
    mixed.make(environment, { signal, log: line => log.push(line) });
  return { content, packageLayers, mixed, make, log };
}

const simple = (name: string, requires = '', files: Record<string, string> = {}): MadeWheel => ({
  name,
  metadata: requires === '' ? '' : `Requires-Dist: ${requires}`,
  members: Object.entries({ [`${name}.py`]: `of ${name}`, ...files }).map(([path, content]) => ({
    ...{ name: path, content },
  })),
});

suite('wheels as layers', () => {
  test('each wheel has a layer above those of Conda, with its files in place', async t => {
    const entryPoints = '[console_scripts]\none = one:main\n';
    const world = await worldOf(t, [{ ...simple('one'), entryPoints }, simple('two')]);
    const { conda: packages, wheels } = world;
    const alone = await world.packageLayers.make(
      { packages },
      { signal: new AbortController().signal, log: () => {} },
    );
    assert.deepEqual(await world.mixed.missing({ packages, wheels }), { packages: [], wheels });
    const made = await world.make({ packages, wheels });
    assert.equal(made.layers.length, alone.layers.length + 2);
    // Those of Conda are the lowest, and the history is the highest, the same as without wheels.
    const [own, all] = [digestsOf(alone), digestsOf(made)];
    assert.deepEqual([...all.slice(0, 2), all.at(-1)], own);
    assert.deepEqual(
      made.layers.slice(2, -1).map(({ holds }) => holds),
      ['pypi: one 1.0', 'pypi: two 1.0'],
    );
    assert.deepEqual(
      made.wheels.map(({ wheel, metadata }) => [wheel.name, metadata.version]),
      [
        ['one', '1.0'],
        ['two', '1.0'],
      ],
    );
    await using root = await makeTempDir('mixed-root');
    await unpackLayers(world.content, made.layers, root.path);
    const text = (path: string) => readFileSync(join(root.path, 'opt/conda', path), 'utf8');
    assert.equal(text(`${site}/one.py`), 'of one');
    assert.equal(text(`${site}/library.py`), 'of conda');
    assert.match(text('bin/one'), /^#!\/opt\/conda\/bin\/python3\.12\n/);
    assert.match(world.log.at(-1) ?? '', /^4 packages, 2 fetched, .*; 5 layers/);
  });

  test('asked again, nothing is fetched; other servers make the same bytes', async t => {
    const world = await worldOf(t, [simple('one'), simple('two')]);
    const { conda: packages, wheels, channels } = world;
    const first = await world.make({ packages, wheels });
    const fetched = channels.requests.length;
    const again = await world.make({ packages, wheels: wheels.toReversed() });
    assert.deepEqual(digestsOf(again), digestsOf(first));
    assert.deepEqual(await world.mixed.missing({ packages, wheels }), { packages: [], wheels: [] });
    assert.equal(channels.requests.length, fetched);
    // A wheel that is known by its digest must be at the address all the same.
    const [one, ...rest] = wheels as [WheelFile, WheelFile];
    const gone = { ...one, url: `${channelUrl}/wheels/gone.whl` };
    await assert.rejects(world.make({ packages, wheels: [gone, ...rest] }), /could not be fetched/);
    const copy = { ...one, url: `${channelUrl}/wheels/copy.whl` };
    const bytes = channels.files.get(`/test/wheels/${one.fileName}`) as Uint8Array;
    channels.files.set('/test/wheels/copy.whl', bytes);
    const elsewhere = await world.make({ packages, wheels: [copy, ...rest] });
    assert.deepEqual(digestsOf(elsewhere), digestsOf(first));
    const other = await mixedOf(t, `${channels.url}/test`);
    assert.deepEqual(digestsOf(await other.make({ packages, wheels })), digestsOf(first));
  });

  test('without wheels, the layers are those of Conda alone', async t => {
    const world = await worldOf(t, []);
    const { conda: packages } = world;
    const { signal } = new AbortController();
    const alone = await world.packageLayers.make({ packages }, { signal, log: () => {} });
    const made = await world.make({ packages, wheels: [] });
    assert.deepEqual(digestsOf(made), digestsOf(alone));
  });

  test('the order of installation decides about files of two packages, and the log names them', async t => {
    const shared = (text: string) => ({ 'tests/__init__.py': text, 'shared.py': text });
    // "alpha" requires "zeta": it is installed later.
    const world = await worldOf(t, [
      simple('alpha', 'Zeta>=1', shared('of alpha')),
      simple('zeta', 'alpha ; extra == "test"', shared('of zeta')),
      simple('other'),
    ]);
    const { conda: packages, wheels } = world;
    const made = await world.make({ packages, wheels });
    await using root = await makeTempDir('mixed-root');
    await unpackLayers(world.content, made.layers, root.path);
    const text = (path: string) => readFileSync(join(root.path, 'opt/conda', site, path), 'utf8');
    assert.equal(text('tests/__init__.py'), 'of alpha');
    assert.equal(text('shared.py'), 'of alpha');
    const replaced = world.log.filter(line => line.includes('replace'));
    assert.deepEqual(replaced, [
      `pypi:zeta: packages that are installed later replace 2 of its files, such as ${site}/shared.py`,
      `library: packages that are installed later replace ${site}/shared.py`,
    ]);
    // The package of Conda has the layer that it has alone.
    const alone = await world.packageLayers.make(
      { packages },
      { signal: new AbortController().signal, log: () => {} },
    );
    for (const digest of digestsOf(alone)) assert.ok(digestsOf(made).includes(digest));
  });

  test('many packages of both kinds share the layers that an image may have', async t => {
    const made = Array.from({ length: 40 }, (_, at) => simple(`wheel${at}`));
    const packages = Array.from(
      { length: 80 },
      (_, at): CondaPackage => ({
        ...{ name: `tool${at}`, version: '1.0' },
        files: [{ name: `share/tool${at}`, content: `${at}` }],
      }),
    );
    const world = await worldOf(t, made, [python, ...packages]);
    const { layers } = await world.make({ packages: world.conda, wheels: world.wheels });
    assert.ok(layers.length <= 91, `${layers.length} layers`);
    await using root = await makeTempDir('mixed-root');
    await unpackLayers(world.content, layers, root.path);
    const text = (path: string) => readFileSync(join(root.path, 'opt/conda', path), 'utf8');
    for (let at = 0; at < 40; at += 1) assert.equal(text(`${site}/wheel${at}.py`), `of wheel${at}`);
    for (let at = 0; at < 80; at += 1) assert.equal(text(`share/tool${at}`), `${at}`);
  });

  test('a wheel with the wrong digest, a harmful one, and an environment without Python are refused', async t => {
    const harmful: MadeWheel = { name: 'harmful', members: [{ name: '../../x' }] };
    const world = await worldOf(t, [simple('one'), harmful]);
    const { conda: packages, wheels } = world;
    const [one, bad] = wheels as [WheelFile, WheelFile];
    const changed = { ...one, sha256: '0'.repeat(64) };
    await assert.rejects(world.make({ packages, wheels: [changed] }), {
      ...{ name: 'Fault', message: /sent a wrong archive for one-1\.0-.*: the SHA-256/ },
    });
    await assert.rejects(world.make({ packages, wheels: [one, bad] }), {
      name: 'Fault',
      message:
        /^Cannot install harmful-1\.0-py3-none-any\.whl: the wheel at .* has an unsafe path, "\.\.\/\.\.\/x"/,
    });
    await assert.rejects(world.make({ packages: packages.slice(1), wheels: [one] }), {
      ...{ kind: 'bad-request', message: /no Conda package python/ },
    });
    for (const change of [{ fileName: 'x\n.whl' }, { name: '../x' }, { sha256: 'abc' }]) {
      await assert.rejects(world.make({ packages, wheels: [{ ...one, ...change }] }), {
        ...{ kind: 'bad-request', message: /is not a wheel with a name/ },
      });
    }
    const twice = { packages, wheels: [one, { ...one, name: 'One' }] };
    await assert.rejects(world.make(twice), { message: /two wheels of one: remove one/ });
    assert.throws(() => world.mixed.check(twice), /two wheels of one/);
    // What failed is not kept, and does not stop what follows.
    const { layers } = await world.make({ packages, wheels: [one] });
    assert.equal(layers.length, 4);
  });

  test('a wheel may have a third more files than a Conda package', async t => {
    const files = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`data/${at}`, '']));
    const world = await worldOf(t, [simple('fits', '', files(36)), simple('large', '', files(37))]);
    const { conda: packages, wheels } = world;
    const { make } = await mixedOf(t, `${world.channels.url}/test`, { maxFiles: 30 });
    await make({ packages, wheels: wheels.slice(0, 1) });
    await assert.rejects(make({ packages, wheels }), { message: /has more than 40 zip members/ });
  });

  test('the address of a wheel that was requested by it is in direct_url.json, and no other layer has it', async t => {
    const world = await worldOf(t, [simple('one')]);
    const { conda: packages, wheels } = world;
    const [one] = wheels as [WheelFile];
    const directUrl = { url: 'https://example.org/one.whl', archive_info: {} };
    const plain = await world.make({ packages, wheels });
    const direct = await world.make({ packages, wheels: [{ ...one, directUrl }] });
    assert.notDeepEqual(digestsOf(direct), digestsOf(plain));
    await using root = await makeTempDir('mixed-root');
    await unpackLayers(world.content, direct.layers, root.path);
    const info = join(root.path, 'opt/conda', site, 'one-1.0.dist-info');
    assert.deepEqual(JSON.parse(readFileSync(join(info, 'direct_url.json'), 'utf8')), directUrl);
    assert.match(readFileSync(join(info, 'RECORD'), 'utf8'), /direct_url\.json,sha256=/);
  });

  test('many callers share the work for a wheel', async t => {
    const world = await worldOf(t, [simple('one')]);
    const { conda: packages, wheels, channels } = world;
    const all = await Promise.all(
      Array.from({ length: 20 }, () => world.make({ packages, wheels })),
    );
    assert.equal(new Set(all.map(made => digestsOf(made).join())).size, 1);
    assert.equal(channels.requests.filter(path => path.endsWith('.whl')).length, 1);
  });
});
