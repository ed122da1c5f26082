import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { SolveRequest } from '../../../src/conda/solving/conda-solver.ts';
import { inRoom, threadNeeds } from '../../../src/conda/threads/thread-room.ts';
import { Fault } from '../../../src/foundation/fault.ts';
import { type CondaChannels, startCondaChannels } from '../../world/conda-channels.ts';
import { nativeSubdir } from '../../world/conda-package.ts';
import { listed, solverFor } from './solver-world.ts';

const packages = {
  here: [
    { name: 'tool', version: '1.0', depends: ['lib >=2'] },
    { name: 'tool', version: '2.0', depends: ['lib >=2', '__glibc >=2.28'] },
    { name: 'lib', version: '2.1', noarch: 'generic' as const },
    { name: 'lib', version: '3.0', depends: ['absent'] },
    { name: 'other', version: '1', depends: ['lib'] },
  ],
};

const requestFor = ({ url }: CondaChannels, request: Partial<SolveRequest>): SolveRequest => ({
  specs: ['tool'],
  channels: [`${url}/here`],
  subdir: nativeSubdir,
  virtualPackages: [{ name: '__glibc', version: '2.36' }],
  ...request,
});

const start = async (t: TestContext) => {
  const channels = await startCondaChannels(packages);
  t.after(() => channels.stop());
  const { solver } = await solverFor(t, [listed(channels.url)]);
  const solve = (request: Partial<SolveRequest> = {}) =>
    solver.solve(requestFor(channels, request), {
      signal: AbortSignal.timeout(300_000),
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

test('a package that no channel has is reported with the most similar one', async t => {
  const { solve } = await start(t);
  await assert.rejects(solve({ specs: ['othr >=1'] }), /for othr [^\n]*\. Did you mean other\?/);
  // The caller cannot change what a package requires, and a package that exists has a wrong version.
  for (const specs of [['lib 3.0'], ['other 7'], ['something-else']]) {
    const isPlain = (error: Error) => !error.message.includes('Did you mean');
    await assert.rejects(solve({ specs }), isPlain);
  }
});

test('environments of anonymous callers do not delay those of users, and leave half of the queue to them', async t => {
  const channels = await startCondaChannels(packages);
  t.after(() => channels.stop());
  const { solver } = await solverFor(t, [listed(channels.url)], { limits: { maxWaiting: 10 } });
  const solved: string[] = [];
  const refused: string[] = [];
  const solve = async (name: string, isAnonymous: boolean) => {
    const options = { signal: t.signal, log: () => {}, isAnonymous };
    await solver.solve(requestFor(channels, {}), options).then(
      () => solved.push(name),
      (error: Error) => refused.push(error.message),
    );
  };
  const refusals = (count: number) =>
    t.waitFor(() => assert.equal(refused.length, count), { timeout: 60_000 });
  await solve('first', false);
  // No solve begins before all of them are in the queue.
  const others = Promise.withResolvers<void>();
  const work = inRoom(threadNeeds.large, () => others.promise);
  try {
    // One waits for the room, and five for it.
    const anonymous = Array.from({ length: 8 }, (_, at) => solve(`anonymous${at}`, true));
    await refusals(2);
    const users = Array.from({ length: 11 }, (_, at) => solve(`user${at}`, false));
    await refusals(3);
    others.resolve();
    await Promise.all([...anonymous, ...users]);
  } finally {
    others.resolve();
    await work;
  }
  assert.equal(refused.length, 3, refused.join());
  assert.ok(refused.every(message => /^Too many environments wait to be solved/.test(message)));
  const kinds = solved.slice(1).map(name => name.replace(/\d+/, ''));
  const expected = ['anonymous', ...Array(10).fill('user'), ...Array(5).fill('anonymous')];
  assert.deepEqual(kinds, expected);
});

test('a package that requires a newer glibc is not chosen', async t => {
  const { solve } = await start(t);
  const solution = await solve({ virtualPackages: [{ name: '__glibc', version: '2.17' }] });
  assert.equal(solution.find(({ name }) => name === 'tool')?.version, '1.0');
});

test('packages have the records of the repository data', async t => {
  const { solve } = await start(t);
  const [lib, tool] = await solve();
  assert.equal(lib?.record?.noarch, 'generic');
  assert.equal(lib?.record?.sha256, lib?.sha256);
  assert.deepEqual(tool?.record?.depends, ['lib >=2', '__glibc >=2.28']);
});

test('packages that are locked stay, and others are added to them', async t => {
  const { solve } = await start(t);
  const first = await solve({ virtualPackages: [{ name: '__glibc', version: '2.17' }] });
  const again = await solve({ locked: first, specs: ['tool', 'other'] });
  assert.deepEqual(
    again.map(({ name, version }) => `${name} ${version}`),
    ['lib 2.1', 'other 1', 'tool 1.0'],
  );
  assert.ok(again.every(({ record }) => record !== undefined));
});

test('an environment without a solution is refused with the explanation of the solver', async t => {
  const { channels, solve } = await start(t);
  await assert.rejects(solve({ specs: ['lib 3.0'] }), (error: unknown) => {
    assert.ok(error instanceof Fault);
    assert.equal(error.apiStatus, 400);
    assert.ok(error.message.includes(`${channels.url}/here`), error.message);
    assert.match(error.message, /absent/);
    return true;
  });
});

test('a specification that cannot be read is refused', async t => {
  const { solve } = await start(t);
  await assert.rejects(
    solve({ specs: ['to ol ==== 3 x'] }),
    (error: unknown) => error instanceof Fault && error.apiStatus === 400,
  );
});

test('a solve that takes too long is ended', async t => {
  const channels = await startCondaChannels(packages);
  t.after(() => channels.stop());
  const { solver } = await solverFor(t, [listed(channels.url)], { limits: { timeout: 1 } });
  const options = { signal: AbortSignal.timeout(300_000), log: () => {} };
  await assert.rejects(solver.solve(requestFor(channels, {}), options), /not solved within/);
});

test('an environment above the memory is refused', async t => {
  const channels = await startCondaChannels(packages);
  t.after(() => channels.stop());
  const { solver } = await solverFor(t, [listed(channels.url)], { limits: { memory: 0 } });
  const options = { signal: AbortSignal.timeout(300_000), log: () => {} };
  await assert.rejects(solver.solve(requestFor(channels, {}), options), /MiB of memory/);
});
