/** Packages that must come from one channel, which the solver itself does not know. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { withoutChannels } from '../../../src/conda/solving/solver-spec.ts';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { nativeSubdir } from '../../world/conda-package.ts';
import { listed, solverFor } from './solver-world.ts';

const packages = {
  first: [
    { name: 'tool', version: '2' },
    { name: 'lib', version: '1' },
  ],
  second: [
    { name: 'tool', version: '1', depends: ['lib'] },
    { name: 'lib', version: '2' },
    { name: 'only-here', version: '1' },
  ],
};

async function start(t: TestContext) {
  const channels = await startCondaChannels(packages);
  t.after(() => channels.stop());
  const { solver } = await solverFor(t, [listed(channels.url)]);
  return async (specs: readonly string[], wanted: readonly string[]) => {
    const solution = await solver.solve(
      {
        specs: specs.map(spec => spec.replace('URL', channels.url)),
        channels: wanted.map(name => `${channels.url}/${name}`),
        subdir: nativeSubdir,
        virtualPackages: [],
      },
      { signal: AbortSignal.timeout(300_000), log: () => {} },
    );
    return solution.map(({ url }) => url.slice(channels.url.length + 1).replace(nativeSubdir, '*'));
  };
}

test('a package comes from the channel in front of its name, and others from the first channel', async t => {
  const solve = await start(t);
  const both = ['first', 'second'];
  assert.deepEqual(await solve(['tool'], both), ['first/*/tool-2-0.conda']);
  assert.deepEqual(await solve(['URL/second::tool'], both), [
    'first/*/lib-1-0.conda',
    'second/*/tool-1-0.conda',
  ]);
  for (const spec of [
    'tool[channel=URL/second, version=1]',
    "tool[version='>=1', channel=URL/second]",
    'URL/second/SUBDIR::tool',
  ]) {
    assert.deepEqual(await solve([spec.replace('SUBDIR', nativeSubdir)], both), [
      'first/*/lib-1-0.conda',
      'second/*/tool-1-0.conda',
    ]);
  }
});

test('a channel that only a package names is the last', async t => {
  const solve = await start(t);
  assert.deepEqual(await solve(['URL/second::only-here', 'lib'], ['first']), [
    'first/*/lib-1-0.conda',
    'second/*/only-here-1-0.conda',
  ]);
});

test('a package that its channel does not have is not taken from another', async t => {
  const solve = await start(t);
  await assert.rejects(solve(['URL/first::only-here'], ['first', 'second']), {
    kind: 'bad-request',
    message: /only-here/,
  });
});

test('the channel is separated from a specification, however it is written', () => {
  const cases = [
    ['bioconda::samtools=1.20', 'samtools=1.20', 'bioconda'],
    ['conda-forge/label/dev::a >=1,<2', 'a >=1,<2', 'conda-forge/label/dev'],
    ['https://host/channel::A', 'A', 'https://host/channel'],
    ["a[version='>=1', channel='c']", "a[version='>=1']", 'c'],
    ['a[version=1,channel=c,build=h1]', 'a[version=1,build=h1]', 'c'],
    ['a[channel=c,version=1]', 'a[version=1]', 'c'],
    ['a[channel="c"]', 'a', 'c'],
  ] as const;
  for (const [written, spec, channel] of cases) {
    const { specs, channelOf } = withoutChannels([written]);
    assert.deepEqual(specs, [spec]);
    assert.deepEqual(
      [...channelOf],
      [['a', channel]].map(([name, text]) => [
        written.includes('samtools') ? 'samtools' : name,
        text,
      ]),
    );
  }
  const others = ['a=1', 'b[version=2]', 'channel=1', 'my-channel=1[build=h1]'];
  assert.deepEqual(withoutChannels(others), { specs: others, channelOf: new Map() });
  assert.throws(() => withoutChannels(['one::a', 'two::a']), /from two channels, one and two/);
});
