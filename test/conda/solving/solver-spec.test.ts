import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { pack, unpack } from '../../../src/conda/repodata/shards/msgpack.ts';
import { readableShard } from '../../../src/conda/solving/served-subdir.ts';
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
/** Specifications of public environment files, recipes and repository data. */
const specs = readFileSync(here('real-specs.txt'), 'utf8').trim().split(/; |\n/);
/** Where a prefix has more zeros than a version with `post`, Sluice does not find the version (ADR 59). */
const otherThanRattler = new Set(['gatk4=4.4.0.0', 'tabix=0.2.5-0']);

/** Versions around those of the specifications, each in two builds, and for each specification a package that requires it. */
function recordsOf(): readonly ListedRecord[] {
  const builds = new Map<string, Map<string, Set<string>>>();
  for (const spec of specs) {
    const [, name = '', rest = ''] = /^([\w.-]+)(.*)$/.exec(spec) ?? [];
    const [, version = rest, build = 'h1_0'] =
      /^ ?=?([^=<>!~]+?)[= ]([\w*]+)$/.exec(rest.replace('[', '')) ?? [];
    const known = builds.get(name.toLowerCase()) ?? new Map<string, Set<string>>();
    builds.set(name.toLowerCase(), known);
    for (const [one] of version.matchAll(/(?<![A-Za-z0-9_.])[0-9]+(?:[._!]?[0-9a-z]+)*/g)) {
      for (const near of versionsNear(one)) {
        known.set(near, (known.get(near) ?? new Set(['other_7'])).add(build.replaceAll('*', 'x')));
      }
    }
  }
  const listed = [...builds].flatMap(([name, versions]) =>
    [...versions].flatMap(([version, names]) =>
      [...names].map((build, build_number) => recordOf(name, version, build, build_number)),
    ),
  );
  const wanting = specs.map((spec, at) => ({
    ...recordOf(`want-${at}`, '1', '0', 0),
    depends: [spec],
  }));
  return [...listed, ...wanting];
}

function versionsNear(version: string): readonly string[] {
  const digits = version.replace(/[._]*[a-z]+[0-9]*$/, '');
  const next = digits.replace(/[0-9]+$/, last => String(BigInt(last) + 1n));
  return [
    ...['', '9', 'b', '.1'].map(end => version + end),
    ...['', 'k', 'a1', 'rc1', '.dev0', '.5', 'post1'].map(end => digits + end),
    ...['rc1', 'dev0'].map(end => digits.replace(/(?:\.0+)+$/, '') + end),
    ...['', 'rc1', '.dev0'].map(end => next + end),
    digits.replace(/\.[0-9]+$/, ''),
  ];
}

function recordOf(name: string, version: string, build: string, build_number: number) {
  const file = `${name}-${version}-${build}.conda`;
  return { file, name, version, build, build_number, depends: [] };
}

async function solvedByRattler(channel: string, wanted: readonly string[]) {
  const running = promisify(execFile)(requireCommand('python3'), [here('rattler-solve.py')], {
    env: { ...process.env, PYTHONPATH: join(requireConda(), 'rattler') },
    maxBuffer: 2 ** 26,
  });
  running.child.stdin?.end(JSON.stringify({ channel, specs: wanted }));
  return JSON.parse((await running).stdout) as readonly (readonly string[] | null)[];
}

/** Returns a channel of these records, and a function that solves with it. */
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
  const channel = `${channels.url}/c`;
  const solve = async (spec: string) => {
    const request = { specs: [spec], channels: [channel], subdir: 'linux-64' };
    const options = { signal: AbortSignal.timeout(60_000), log: () => {} };
    return await solver.solve({ ...request, virtualPackages: [] }, options);
  };
  return { solve, channel };
}

test('for specifications of public files, Sluice chooses the packages that rattler chooses', async t => {
  assert.ok(specs.length >= 500, `${specs.length}`);
  const { solve, channel } = await solverOf(t, recordsOf());
  // As a request, and some as a dependency.
  const wanted = [...specs, ...specs.map((_, at) => `want-${at}`).filter((_, at) => at % 3 === 0)];
  const expected = await solvedByRattler(channel, wanted);
  const differences: string[] = [];
  for (const [at, spec] of wanted.entries()) {
    const found = await solve(spec).catch(() => null);
    const files = found?.map(({ fileName }) => fileName).sort();
    if (equal(files) === equal(expected[at])) continue;
    if (otherThanRattler.has(specOf(spec))) continue;
    differences.push(`${specOf(spec)}: ${files}, not ${expected[at]}`);
  }
  assert.deepEqual(differences, []);
});

function specOf(wanted: string): string {
  return specs[Number(/^want-([0-9]+)$/.exec(wanted)?.[1])] ?? wanted;
}

/** Writes versions that only differ by zeros, between which solvers choose freely, in one way. */
function equal(files: readonly string[] | null | undefined): string {
  return String(files?.map(file => file.replace(/(?:\.0+)+(?=-|\.?[a-z])/g, '')));
}

test('a solution keeps the words of the channel, and so does an explanation', async t => {
  const record = { build: 'h1', build_number: 0, depends: [] };
  const { solve } = await solverOf(t, [
    { ...record, file: 'lib-1.1.1k-h1.conda', name: 'lib', version: '1.1.1k' },
    { ...record, file: 'top-1-h1.conda', name: 'top', version: '1', depends: ['lib 1.1.1*'] },
    { ...record, file: 'bad-1-h1.conda', name: 'bad', version: '1', depends: ['lib 1.1.2*'] },
  ]);
  const [, top] = await solve('top');
  assert.deepEqual(top?.depends, ['lib 1.1.1*']);
  assert.deepEqual(top?.record?.depends, ['lib 1.1.1*']);
  await assert.rejects(solve('bad'), /lib 1\.1\.2\.\*/);
});

test('the end of a prefix is compared as conda compares it', async t => {
  const versions = ['1rc1', '2.1a1', '2.1ab', '3'];
  const { solve } = await solverOf(
    t,
    versions.map(version => recordOf('lib', version, 'h1', 0)),
  );
  const found = async (spec: string) => (await solve(spec)).map(({ fileName }) => fileName);
  assert.deepEqual(await found('lib =1.0'), ['lib-1rc1-h1.conda']);
  assert.deepEqual(await found('lib =2.1a'), ['lib-2.1a1-h1.conda']);
  assert.deepEqual(await found('lib <3,!=2.1a.*'), ['lib-2.1ab-h1.conda']);
  await assert.rejects(found('lib <2,!=1.0.*'), /lib <2,!?/);
  await assert.rejects(found('lib =4.0'), /lib 4\.0\.\*/);
  await assert.rejects(found('lib =4.1b'), /lib 4\.1b\.\*/);
});

test('packages that a channel lists as removed are not chosen', async t => {
  const records = ['1', '2'].map(version => recordOf('lib', version, 'h1', 0));
  const { solve } = await solverOf(t, records, ['lib-2-h1.conda', 'tool-x-1-0.tar.bz2']);
  assert.deepEqual(
    (await solve('lib')).map(({ version }) => version),
    ['1'],
  );
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

test('a namespace in a dependency is ignored, and a package that requires a channel is not chosen', async t => {
  const { solve } = await solverOf(t, [
    recordOf('lib', '1', 'h1', 0),
    { ...recordOf('top', '1', 'h1', 0), depends: ['conda-forge:Lib=1'] },
    { ...recordOf('top', '2', 'h1', 0), depends: ['conda-forge::lib=1'] },
    { ...recordOf('top', '3', 'h1', 0), depends: ["lib[channel='conda-forge']"] },
  ]);
  const found = (await solve('top')).map(({ fileName }) => fileName).sort();
  assert.deepEqual(found, ['lib-1-h1.conda', 'top-1-h1.conda']);
});

test('a specification that the solver reads as conda does stays as it is', () => {
  for (const spec of ['tool', 'tool >=1,<2', 'tool ==1.1', 'tool =1.1.1 h1', 'x *']) {
    assert.equal(solverSpec(spec), spec);
  }
});
