/** Environments become layers: each package once, the same bytes everywhere, from channels that really answer. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { lstat, mkdir, readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { suite, type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { CondaPackage as SolvedPackage } from '../../../src/conda/conda-package.ts';
import type { EnvironmentLayers } from '../../../src/conda/layers/package-layers.ts';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { type CondaPackage, packPackage, placeholder } from '../../world/conda-package.ts';
import { eventually } from '../../world/eventually.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { digestsOf, layersOf, solved, unpackLayers } from './layer-world.ts';

const tool = (name: string, version = '1.0'): CondaPackage => ({
  ...{ name, version },
  files: [
    { name: `bin/${name}`, content: `#!${placeholder}/bin/sh\necho ${version}\n`, mode: 0o755 },
    { name: `share/${name}/data`, content: name.repeat(1000) },
  ],
});
const python = (version: string, sitePackages?: string): CondaPackage => ({
  ...{ name: 'python', version },
  files: [{ name: 'bin/python', content: version, mode: 0o755 }],
  ...(sitePackages === undefined ? {} : { index: { python_site_packages_path: sitePackages } }),
});
const library: CondaPackage = {
  ...{ name: 'library', version: '2.0', noarch: 'python', depends: ['python'] },
  entryPoints: ['library = library:main'],
  files: [{ name: 'site-packages/library.py', content: 'def main(): pass\n' }],
};

/** A channel with packages, what makes layers of them, and a function that returns a package of the channel. */
async function worldOf(t: TestContext, packages: readonly CondaPackage[]) {
  const channels = await startCondaChannels({ test: packages });
  t.after(() => channels.stop());
  const url = `${channels.url}/test`;
  const world = await layersOf(t, url);
  const all = await Promise.all(packages.map(async it => solved(await packPackage(it))));
  return { channels, url, all, ...world };
}

type World = Awaited<ReturnType<typeof worldOf>>;

/** Returns the texts of an environment's files by path. */
async function filesOf({ content }: World, made: EnvironmentLayers): Promise<Map<string, string>> {
  await using root = await makeTempDir('layers-root');
  await unpackLayers(content, made.layers, root.path);
  const files = new Map<string, string>();
  for (const entry of await readdir(root.path, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) files.set(relative(root.path, path), await readFile(path, 'utf8'));
  }
  return files;
}

suite('layers of packages', () => {
  test('each package has a layer, with its files in place, and the history is on top', async t => {
    const world = await worldOf(t, [tool('one'), tool('two')]);
    const made = await world.make(world.all);
    assert.deepEqual(
      made.layers.map(({ holds }) => holds?.replace(/ \(.*\)$/, '')),
      ['conda: one 1.0', 'conda: two 1.0', 'conda: list of the packages'],
    );
    const files = await filesOf(world, made);
    assert.equal(files.get('opt/conda/bin/one'), '#!/opt/conda/bin/sh\necho 1.0\n');
    assert.equal(files.get('opt/conda/share/two/data'), 'two'.repeat(1000));
    assert.ok(files.has('opt/conda/conda-meta/one-1.0-0.json'));
    const history = files.get('opt/conda/conda-meta/history') ?? '';
    assert.match(history, /^\+https:.*\/one-1\.0-0$/m);
    assert.deepEqual(
      made.packages.map(({ package: { name }, index }) => [name, index.version]),
      [
        ['one', '1.0'],
        ['two', '1.0'],
      ],
    );
  });

  test('asked again, nothing is fetched; a new version of one package fetches and makes only that', async t => {
    const names = ['one', 'two', 'three'].map(name => tool(name));
    const world = await worldOf(t, [...names, tool('two', '1.1')]);
    const { all, channels } = world;
    const before = all.slice(0, 3);
    assert.equal((await world.layers.missing({ packages: before })).length, 3);
    const first = await world.make(before);
    const fetched = channels.requests.length;
    assert.equal(fetched, 3);
    assert.deepEqual(digestsOf(await world.make(before.toReversed())), digestsOf(first));
    assert.equal(channels.requests.length, fetched);
    assert.match(world.log.at(-1) ?? '', /^3 packages, all of them were here; 4 layers/);
    const after = all.toSpliced(1, 1);
    const missing = await world.layers.missing({ packages: after });
    assert.deepEqual(
      missing.map(({ name, version }) => `${name} ${version}`),
      ['two 1.1'],
    );
    const second = await world.make(after);
    assert.equal(channels.requests.length, fetched + 1);
    const kept = digestsOf(first).filter(digest => digestsOf(second).includes(digest));
    assert.equal(kept.length, 2);
  });

  test('the layers are those of every other server, from whatever the package is known by', async t => {
    const one = await worldOf(t, [tool('one'), library, python('3.12.1')]);
    const two = await layersOf(t, one.url);
    const expected = digestsOf(await one.make(one.all));
    assert.deepEqual(digestsOf(await two.make(one.all)), expected);
    const md5 = (it: SolvedPackage) => String(it.record?.md5);
    const locks = [
      one.all.map(it => ({ ...it, record: undefined, size: undefined })),
      one.all.map(it => ({ ...it, record: undefined, sha256: undefined, md5: md5(it) })),
      one.all.map(it => ({ ...it, record: undefined, sha256: undefined, size: undefined })),
    ];
    for (const lock of locks) assert.deepEqual(digestsOf(await two.make(lock)), expected);
    const fetched = one.channels.requests.length;
    for (const lock of locks) await two.make(lock);
    assert.equal(one.channels.requests.length, fetched);
  });

  test('a layer is found by either digest, and by lock files that do not say what a package is', async t => {
    const data: CondaPackage = {
      ...{ name: 'data', version: '1', noarch: 'generic' },
      files: [{ name: 'share/data', content: 'data' }],
    };
    const packages = [tool('one'), data, library, python('3.12.1')];
    const world = await worldOf(t, packages);
    const sumsOf = ({ record }: SolvedPackage) => ({
      md5: String(record?.md5),
      sha256: String(record?.sha256),
    });
    const lockOf = (...names: readonly ('md5' | 'sha256')[]) =>
      world.all.map(it => {
        const sums = sumsOf(it);
        const stated = Object.fromEntries(names.map(name => [name, sums[name]]));
        return { ...it, sha256: undefined, ...stated, record: undefined, size: undefined };
      });
    const requests = [lockOf('md5'), lockOf('sha256'), lockOf('md5', 'sha256'), world.all];
    const first = await world.make(world.all);
    const fetched = world.channels.requests.length;
    for (const request of requests) {
      assert.deepEqual(await world.layers.missing({ packages: request }), []);
      const made = await world.make(request);
      assert.deepEqual(digestsOf(made), digestsOf(first));
      // The bills of an image are the same, whatever the request has stated.
      for (const [at, { sums }] of made.packages.entries()) {
        const { name } = made.packages[at]?.package ?? {};
        const it = world.all.find(one => one.name === name);
        assert.deepEqual(sums, it && { ...sumsOf(it), size: it.size });
      }
    }
    assert.equal(world.channels.requests.length, fetched);
    const other = await layersOf(t, world.url);
    await other.make(lockOf('md5'));
    for (const request of requests)
      assert.deepEqual(await other.layers.missing({ packages: request }), []);
  });

  test('a package of which the channel does not say that it is for Python has a layer for each', async t => {
    const world = await worldOf(t, [library, python('3.12.1'), python('3.13.1')]);
    const [it, old, recent] = world.all;
    assert.ok(it && old && recent);
    const { noarch: _, ...record } = it.record ?? {};
    const silent = { ...it, record };
    for (const [interpreter, place] of [
      [old, 'lib/python3.12'],
      [recent, 'lib/python3.13'],
    ] as const) {
      const files = await filesOf(world, await world.make([silent, interpreter]));
      assert.ok(files.has(`opt/conda/${place}/site-packages/library.py`), place);
    }
    const message = /is for every Python .* neither its channel nor its address says/;
    for (const wrong of [
      { ...it, subdir: 'linux-64', record: undefined },
      { ...it, record: { ...record, noarch: 'generic' } },
    ]) {
      await assert.rejects(world.make([wrong, old]), { message });
    }
    const stated = { ...it, subdir: 'linux-64' };
    const files = await filesOf(world, await world.make([stated, recent]));
    assert.ok(files.has('opt/conda/lib/python3.13/site-packages/library.py'));
  });

  test('an environment of the base image is removed by a lowest layer, which is the same everywhere', async t => {
    const world = await worldOf(t, [tool('one')]);
    const options = { signal: new AbortController().signal, log: () => {} };
    const { layers } = await world.layers.make({ packages: world.all, isReplaced: true }, options);
    const [lowest, ...others] = layers;
    assert.deepEqual(others, (await world.make(world.all)).layers);
    assert.ok(lowest);
    const tar = gunzipSync((await world.content.read(lowest.gzipDigest)) ?? '');
    assert.equal(execFileSync('tar', ['-t'], { input: tar }).toString(), 'opt/.wh.conda\n');
    assert.equal(
      lowest.gzipDigest,
      'sha256:ed3a3679e3ab0c2e1f85348a7052bacfdb34cc1c2ba9e139eb3eb3b1fe4ef33a',
    );
  });

  test('a package for Python is where the Python of the environment looks for it', async t => {
    const free = python('3.13.1', 'lib/python3.13t/site-packages');
    const world = await worldOf(t, [library, python('3.12.1'), free]);
    const [it, old, threaded] = world.all;
    assert.ok(it && old && threaded);
    const layers: string[][] = [];
    for (const [interpreter, place] of [
      [old, 'lib/python3.12'],
      [threaded, 'lib/python3.13t'],
    ] as const) {
      // A lock file has no records: the package of Python says where it looks.
      for (const isLocked of [false, true]) {
        const packages = [it, interpreter].map(one =>
          isLocked ? { ...one, record: undefined } : one,
        );
        const made = await world.make(packages);
        const files = await filesOf(world, made);
        assert.ok(files.has(`opt/conda/${place}/site-packages/library.py`));
        assert.match(
          files.get('opt/conda/bin/library') ?? '',
          /^#!\/opt\/conda\/bin\/python3\.1[23]\n/,
        );
        layers.push(digestsOf(made));
      }
    }
    assert.deepEqual(layers[0], layers[1]);
    assert.deepEqual(layers[2], layers[3]);
    await assert.rejects(world.make([it]), /no Python/);
    const damaged = { ...old, record: { python_site_packages_path: '../../etc' } };
    await assert.rejects(world.make([it, damaged]), /python_site_packages_path/);
  });

  test('an environment with more packages than layers has shared layers with the same files', async t => {
    const tools = Array.from({ length: 95 }, (_, at) => tool(`tool-${at}`));
    const world = await worldOf(t, [...tools, tool('tool-7', '1.1')]);
    const before = world.all.slice(0, 95);
    const first = await world.make(before);
    assert.ok(first.layers.length <= 91);
    const files = await filesOf(world, first);
    for (const { name } of tools) {
      assert.equal(files.get(`opt/conda/share/${name}/data`), name.repeat(1000));
    }
    const fetched = world.channels.requests.length;
    assert.deepEqual(digestsOf(await world.make(before)), digestsOf(first));
    const second = await world.make(world.all.toSpliced(7, 1));
    assert.equal(world.channels.requests.length, fetched + 1);
    const changed = digestsOf(second).filter(digest => !digestsOf(first).includes(digest));
    assert.equal(changed.length, 2, 'its own layer or the one it shares, and the history');
  });

  test('what waits for the same package shares one download, and who leaves does not stop the others', async t => {
    const world = await worldOf(t, [tool('one'), tool('two')]);
    const stop = new AbortController();
    const left = world.make(world.all, stop.signal);
    const others = [1, 2, 3].map(() => world.make(world.all));
    stop.abort(new Error('left'));
    await assert.rejects(left, /left/);
    const made = await Promise.all(others);
    assert.equal(world.channels.requests.length, 2);
    assert.equal(new Set(made.map(one => digestsOf(one).join())).size, 1);
  });

  test('a channel that lies about the archive of another one changes nothing for others', async t => {
    const it: CondaPackage = {
      ...{ name: 'one', version: '1.0' },
      files: [{ name: 'bin/.one-post-link.sh', content: 'echo\n', mode: 0o755 }],
    };
    const world = await worldOf(t, [it]);
    const [honest] = world.all;
    assert.ok(honest);
    const lies = [
      { size: 1 },
      { size: 2 ** 40 },
      { name: 'two' },
      { version: '2.0' },
      { build: 'other' },
      { fileName: 'one-1.0-0.tar.bz2' },
    ];
    // Those who lie come first: their work would serve all that wait for the same archive.
    const lied = lies.map(lie => world.make([{ ...honest, ...lie }]));
    const made = await Promise.allSettled([world.make([honest]), ...lied]);
    assert.deepEqual(
      made.map(({ status }) => status),
      ['fulfilled', ...lies.map(() => 'rejected')],
    );
    const other = await layersOf(t, world.url);
    for (const one of [{ ...honest, name: 'ONE' }, honest]) {
      const [{ linkScripts } = {}] = (await other.make([one])).packages;
      assert.deepEqual(linkScripts, ['bin/.one-post-link.sh']);
    }
  });

  test('a small environment does not wait for all packages of a large one', async t => {
    const large = Array.from({ length: 40 }, (_, at) => tool(`large-${at}`));
    const world = await worldOf(t, [...large, tool('small')]);
    let hasEnded = false;
    const first = world.make(world.all.slice(0, 40)).then(() => {
      hasEnded = true;
    });
    await eventually('packages are fetched', () => world.channels.requests.length >= 8);
    await world.make(world.all.slice(40));
    assert.equal(hasEnded, false);
    const fetched = world.channels.requests.length;
    assert.ok(fetched < 35, `${fetched} packages were fetched before`);
    await first;
  });

  test('no package is installed through a link of another', async t => {
    const linked: CondaPackage = {
      ...{ name: 'linked', version: '1' },
      files: [
        { name: 'share/out', link: '/etc' },
        { name: 'share/up', link: '../../../etc' },
      ],
    };
    const below: CondaPackage = {
      ...{ name: 'below', version: '1' },
      files: ['out', 'up'].map(name => ({ name: `share/${name}/passwd`, content: 'harm' })),
    };
    const world = await worldOf(t, [linked, below]);
    for (const packages of [world.all, world.all.toReversed()]) {
      await using root = await makeTempDir('layers-root');
      await mkdir(root.join('etc'));
      const { layers } = await world.make(packages);
      await unpackLayers(world.content, layers, root.path);
      assert.deepEqual(await readdir(root.join('etc')), []);
      for (const name of ['out', 'up']) {
        const place = root.join('opt/conda/share', name);
        const isLink = (await lstat(place)).isSymbolicLink();
        assert.deepEqual(isLink ? [] : await readdir(place), isLink ? [] : ['passwd']);
      }
    }
  });

  test('of what a package says about itself, little is kept, and an environment that says too much is refused', async t => {
    const about = { license: 'MIT', summary: 'A tool', description: 'x'.repeat(1_000_000) };
    const wordy: CondaPackage = {
      ...tool('wordy'),
      ...{ info: { 'about.json': JSON.stringify(about) }, index: { extra: 'x'.repeat(1_000_000) } },
    };
    const many = Array.from({ length: 26 }, (_, at) => ({
      ...tool(`many-${at}`),
      depends: Array.from(
        { length: 20_000 },
        (__, other) => `package-with-a-long-name-${at}-${other}`,
      ),
    }));
    const world = await worldOf(t, [wordy, ...many]);
    const [first, ...others] = world.all;
    assert.ok(first);
    const { packages } = await world.make([first]);
    assert.equal(packages[0]?.about.summary, 'A tool');
    assert.ok(
      JSON.stringify(packages[0]).length < 2_000_000,
      'only the record of the channel is large',
    );
    assert.ok(JSON.stringify([packages[0]?.about, packages[0]?.index]).length < 1000);
    await assert.rejects(
      world.make(others),
      /have more than 16 million characters of dependencies/,
    );
    assert.equal((await world.make(others.slice(0, 5))).packages.length, 5);
  });

  test('too many packages, and two of one name, are refused', async t => {
    const world = await worldOf(t, [tool('one'), tool('one', '2.0')]);
    await assert.rejects(world.make(world.all), /two packages named one/);
    const many = Array.from({ length: 1001 }, (_, at) => ({ ...world.all[0], name: `n${at}` }));
    await assert.rejects(world.make(many as typeof world.all), /1001 packages, at most 1000/);
  });
});
