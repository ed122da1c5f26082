/** The packages of a source, found by the real solver in channels that really answer. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { CondaSource } from '../../src/builds/recipe/conda/conda-source.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import { findCondaPackages } from '../../src/builds/solve/conda/conda-packages.ts';
import { readLock } from '../../src/conda/locks/read-lock.ts';
import { listed, solverFor } from '../conda/solving/solver-world.ts';
import { startCondaChannels } from '../world/conda-channels.ts';
import { nativeSubdir } from '../world/conda-package.ts';

const packages = [
  { name: 'net', version: '1', depends: ['engine'] },
  { name: 'engine', version: '1', depends: ['__cuda >=12'] },
  { name: 'plain', version: '1' },
  { name: 'odd', version: '1', depends: ['__cuda >=12', 'absent'] },
];

async function start(t: TestContext) {
  const channels = await startCondaChannels({ here: packages });
  t.after(() => channels.stop());
  const { solver } = await solverFor(t, [listed(channels.url)]);
  const lines: string[] = [];
  const find = async (
    submitted: object,
    virtualPackages = [{ name: '__glibc', version: '2.36' }],
  ) => {
    const source = readBuildSource({
      packages: {
        ...{ type: 'CONDA', channels: [`${channels.url}/here`] },
        ...{ condaOpts: { basePackages: 'plain' }, ...submitted },
      },
    }) as CondaSource;
    const refuse = async () => assert.fail('it was called');
    const found = await findCondaPackages(
      source,
      { subdir: nativeSubdir, virtualPackages },
      { solver, readLock, channels: { open: refuse }, readOwnLock: refuse },
      { signal: AbortSignal.timeout(300_000), log: line => lines.push(line) },
    );
    return found.packages;
  };
  return { url: `${channels.url}/here/${nativeSubdir}`, find, lines };
}

test('packages that require CUDA without showing it are solved again with CUDA', async t => {
  const { find, lines } = await start(t);
  const names = async (entries: readonly string[]) =>
    (await find({ entries })).map(({ name }) => name);
  assert.deepEqual(await names(['plain']), ['plain']);
  assert.deepEqual(lines, []);
  assert.deepEqual(await names(['net']), ['engine', 'net', 'plain']);
  assert.deepEqual(lines, ['A package requires CUDA: solving again with CUDA 99']);
  await assert.rejects(find({ entries: ['odd'] }), { kind: 'bad-request', message: /absent/ });
  const old = [{ name: '__cuda', version: '11' }];
  await assert.rejects(find({ entries: ['net'] }, old), { message: /__cuda/ });
  assert.equal(lines.length, 2, 'a version that was asked for stays');
});

test('a lock file is read with both digests, in its order, before the packages that are added', async t => {
  const { find, url } = await start(t);
  const [md5, sha256] = ['a'.repeat(32), 'b'.repeat(64)];
  const entry = (name: string) => [
    ...[`- name: ${name}`, '  manager: conda', `  platform: ${nativeSubdir}`],
    ...[`  url: ${url}/${name}-1-0.conda`, '  hash:', `    md5: ${md5}`, `    sha256: ${sha256}`],
  ];
  const lock = ['version: 1', 'metadata:', 'package:', ...entry('zlib'), ...entry('alpha'), ''];
  const found = await find({ entries: lock });
  assert.deepEqual(found.map(({ name, md5, sha256 }) => [name, md5, sha256]).slice(0, 2), [
    ['zlib', md5, sha256],
    ['alpha', md5, sha256],
  ]);
  assert.equal(found[2]?.name, 'plain');
});
