import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { SolveWish } from '../../../src/conda/solving/conda-solver.ts';
import { type CondaChannels, startCondaChannels } from '../../world/conda-channels.ts';
import { nativeSubdir } from '../../world/conda-package.ts';
import { solverFor } from './solver-world.ts';

const packages = {
  here: [
    { name: 'tool', version: '1.0', depends: ['lib >=2'] },
    { name: 'tool', version: '2.0', depends: ['lib >=2', '__glibc >=2.28'] },
    { name: 'lib', version: '2.1', noarch: 'generic' as const },
    { name: 'lib', version: '3.0', depends: ['absent'] },
  ],
};

const wishFor = ({ url }: CondaChannels, wish: Partial<SolveWish>): SolveWish => ({
  specs: ['tool'],
  channels: [`${url}/here`],
  subdir: nativeSubdir,
  virtualPackages: [{ name: '__glibc', version: '2.36' }],
  ...wish,
});

const start = async (t: TestContext) => {
  const channels = await startCondaChannels(packages);
  t.after(() => channels.stop());
  const solver = solverFor(t, channels.url);
  const solve = (wish: Partial<SolveWish> = {}) =>
    solver.solve(wishFor(channels, wish), {
      signal: AbortSignal.timeout(60_000),
      log: () => {},
    });
  return { channels, solve };
};

test('an environment is solved, and its packages are sorted by name', async t => {
  const { channels, solve } = await start(t);
  const solution = await solve();
  assert.deepEqual(
    solution.map(({ name, version, subdir }) => ({ name, version, subdir })),
    [
      { name: 'lib', version: '2.1', subdir: 'noarch' },
      { name: 'tool', version: '2.0', subdir: nativeSubdir },
    ],
  );
  assert.equal(solution[0]?.url, `${channels.url}/here/noarch/lib-2.1-0.conda`);
  assert.match(solution[0]?.sha256 ?? '', /^[0-9a-f]{64}$/);
});

test('a package that requires a newer glibc is not chosen', async t => {
  const { solve } = await start(t);
  const solution = await solve({ virtualPackages: [{ name: '__glibc', version: '2.17' }] });
  assert.equal(solution.find(({ name }) => name === 'tool')?.version, '1.0');
});
