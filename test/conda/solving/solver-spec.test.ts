import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { pack } from '../../../src/conda/repodata/shards/msgpack.ts';
import { unpack } from '../../../src/conda/repodata/shards/msgpack-reader.ts';
import { readableShard } from '../../../src/conda/solving/readable-shard.ts';
import { solverSpec } from '../../../src/conda/solving/solver-spec.ts';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { requireCommand, requireConda } from '../../world/tools.ts';
import { listed, solverFor } from './solver-world.ts';

interface ListedRecord {
  readonly file: string;
  readonly name: string;
  readonly version: string;
  readonly build: string;
  readonly build_number: number;
  readonly depends: readonly string[];
}

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
/** Packages that public environment files list. */
const real = readFileSync(here('real-packages.txt'), 'utf8')
  .trim()
  .split(/\s+/)
  .map(text => text.split('=') as [name: string, version: string, build: string]);

/** Specifications of a real package, in the forms of environment files and of repository data. */
function formsOf([name, version, build]: (typeof real)[number]): readonly string[] {
  const series = version.replace(/[a-z]+$/, '').replace(/(.)\.[^.]+$/, '$1');
  const digits = version.replace(/[a-z]+$/, '');
  return [
    `${name}=${version}=${build}`,
    `${name}=${version}`,
    `${name}==${version}`,
    `${name} ${digits}*`,
    `${name}=${digits}`,
    `${name} ${digits}.*`,
    `${name} ${series}.*`,
    `${name} ${digits}.* ${build.slice(0, 2)}*`,
    `${name} >=${digits},!=${digits}.*`,
    `${name}[version='${digits}*',build=${build.slice(0, 2)}*]`,
    `${name}[version='>=${digits}, <9999']`,
    `${name}[build='*_0']`,
    `${name}>=${series},<${version}`,
    `${name} ${digits}.*|${series}*`,
  ];
}

/** Versions around those of real packages, each in two builds. */
function recordsOf(): readonly ListedRecord[] {
  const versions = new Map<string, Map<string, string>>();
  for (const [name, version, build] of real) {
    const known = versions.get(name) ?? new Map<string, string>();
    versions.set(name, known);
    const digits = version.replace(/[a-z]+$/, '');
    const ends = ['', 'k', 'rc1', '.dev0', '.5', '0', 'post1'].map(end => `${digits}${end}`);
    for (const one of [version, ...ends]) known.set(one, build);
  }
  return [...versions].flatMap(([name, known]) =>
    [...known].flatMap(([version, build]) =>
      [build, 'other_7'].map((build, build_number) => ({
        file: `${name}-${version}-${build}.conda`,
        ...{ name, version, build, build_number, depends: [] },
      })),
    ),
  );
}

function matchesByRattler(
  records: readonly ListedRecord[],
  specs: readonly string[],
): readonly (readonly string[] | null)[] {
  const printed = execFileSync(requireCommand('python3'), [here('rattler-match.py')], {
    input: JSON.stringify({ records, specs }),
    env: { ...process.env, PYTHONPATH: join(requireConda(), 'rattler') },
  });
  return JSON.parse(printed.toString());
}

/** Returns a function that solves with a channel of these records, and returns the files of the solution. */
async function solverOf(t: TestContext, records: readonly ListedRecord[], removed: object = []) {
  const channels = await startCondaChannels({});
  t.after(() => channels.stop());
  const packages = Object.fromEntries(
    records.map(({ file, ...record }) => [
      file,
      { ...record, subdir: 'linux-64', size: 1, sha256: '0'.repeat(64) },
    ]),
  );
  const data = { info: { subdir: 'linux-64' }, packages: {}, 'packages.conda': packages, removed };
  channels.files.set('/c/linux-64/repodata.json', Buffer.from(JSON.stringify(data)));
  const { solver } = await solverFor(t, [listed(channels.url)]);
  return async (spec: string) => {
    const wish = { specs: [spec], channels: [`${channels.url}/c`], subdir: 'linux-64' };
    const options = { signal: AbortSignal.timeout(60_000), log: () => {} };
    return await solver.solve({ ...wish, virtualPackages: [] }, options);
  };
}

test('packages that public environment files list are found as rattler finds them', async t => {
  const records = recordsOf();
  const specs = [...new Set(real.flatMap(formsOf))];
  assert.ok(specs.length >= 500, `${specs.length}`);
  const expected = matchesByRattler(records, specs);
  const wanting = specs.map((spec, at) => ({
    file: `want-${at}-1-0.conda`,
    ...{ name: `want-${at}`, version: '1', build: '0', build_number: 0, depends: [spec] },
  }));
  const solve = await solverOf(t, [...records, ...wanting]);
  const found = async (spec: string) =>
    (await solve(spec).catch(() => [])).map(({ fileName }) => fileName);
  const differences: string[] = [];
  for (const [at, spec] of specs.entries()) {
    const best = expected[at]?.[0];
    const [chosen] = await found(spec);
    if (chosen !== best) differences.push(`${spec}: ${chosen}, not ${best}`);
    // The same specification as a dependency.
    const needed = (await found(`want-${at}`)).find(file => !file.startsWith('want-'));
    if (needed !== best) differences.push(`a dependency ${spec}: ${needed}, not ${best}`);
  }
  assert.deepEqual(differences, []);
});

test('a solution keeps the words of the channel, and so does an explanation', async t => {
  const record = { build: 'h1', build_number: 0, depends: [] };
  const solve = await solverOf(t, [
    { ...record, file: 'lib-1.1.1k-h1.conda', name: 'lib', version: '1.1.1k' },
    { ...record, file: 'top-1-h1.conda', name: 'top', version: '1', depends: ['lib 1.1.1*'] },
    { ...record, file: 'bad-1-h1.conda', name: 'bad', version: '1', depends: ['lib 1.1.2*'] },
  ]);
  const [, top] = await solve('top');
  assert.deepEqual(top?.depends, ['lib 1.1.1*']);
  assert.deepEqual(top?.record?.depends, ['lib 1.1.1*']);
  await assert.rejects(solve('bad'), /lib 1\.1\.2\.\*/);
});

test('packages that a channel lists as removed are not chosen', () => {
  const record = { name: 'lib', version: '1', build: '0', build_number: 0, depends: [] };
  const shard = pack({
    packages: { 'lib-1-0.tar.bz2': record },
    'packages.conda': { 'lib-1-0.conda': record },
    removed: ['lib-1-0.conda'],
  });
  const read = unpack(zstdDecompressSync(readableShard(zstdCompressSync(shard))));
  assert.deepEqual(JSON.parse(JSON.stringify(read)), {
    packages: { 'lib-1-0.tar.bz2': record },
    'packages.conda': {},
    removed: ['lib-1-0.conda'],
  });
});

test('a specification that the solver reads as conda does stays as it is', () => {
  for (const spec of ['tool', 'tool >=1,<2', 'tool ==1.1', 'tool =1.1.1 h1', 'x *']) {
    assert.equal(solverSpec(spec), spec);
  }
});
