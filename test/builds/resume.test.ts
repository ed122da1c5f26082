/** Builds that an earlier server has left, and the next server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BuildOptions } from '../../src/builds/plan/build-options.ts';
import { ask, idOf, plan, runningAre, shared, startBench } from './build-bench.ts';

test('a build that the operator has restricted since is not resumed', async () => {
  await using first = await startBench({ concurrent: shared(1) });
  const anonymous = await ask(first, 'stranger', 'somewhere');
  await ask(first, 'known', 'ada', undefined, true);
  await first.builds.close();
  await using second = first.restart();
  second.builds.resume(({ isTrusted }) => isTrusted);
  await runningAre(second, ['known']);
  const { succeeded, reason } = await second.builds.get(idOf(anonymous));
  assert.equal(succeeded, false);
  assert.match(reason ?? '', /restricted builds .*log in/);
});

test('a build fails after the server ended unexpectedly three times during it', async () => {
  await using first = await startBench({ concurrent: shared(1) });
  const id = idOf(await ask(first, 'deadly'));
  const queued = idOf(await ask(first, 'queued'));
  await runningAre(first, ['deadly']);
  // A killed process changes no more rows: each bench here represents one.
  await using second = first.restart();
  await second.builds.resume();
  await runningAre(second, ['deadly']);
  await using third = second.restart();
  await third.builds.resume();
  await runningAre(third, ['deadly']);
  assert.equal((await third.store.find(id))?.starts, 3);
  await using fourth = third.restart();
  await fourth.builds.resume();
  await runningAre(fourth, ['queued']);
  const { succeeded, reason } = await fourth.builds.get(id);
  assert.equal(succeeded, false);
  assert.match(reason ?? '', /^The server ended unexpectedly 3 times while this build ran/);
  assert.match(await fourth.logOf(id), /The build failed: The server ended unexpectedly 3 times/);
  assert.equal((await fourth.store.find(queued))?.starts, 1);
});

test('a clean stop of the server does not count as a failed start', async () => {
  await using first = await startBench();
  const id = idOf(await ask(first, 'long'));
  let bench = first;
  for (let restarts = 0; restarts < 5; restarts += 1) {
    await runningAre(bench, ['long']);
    assert.equal((await bench.store.find(id))?.starts, 1);
    await bench.builds.close();
    assert.equal((await bench.store.find(id))?.starts, 0);
    bench = bench.restart();
    await bench.builds.resume();
  }
  await runningAre(bench, ['long']);
  await bench.builds.close();
});

test('a build whose SSH keys or secrets were lost with the server fails', async () => {
  const needs: readonly BuildOptions[] = [{ sshIds: ['default'] }, { secretIds: ['token'] }];
  for (const options of needs) {
    const { origin, ...rest } = plan('private');
    assert.ok(origin.kind === 'recipe');
    const secrets = { values: {}, sshKeys: {} };
    const caller = { owner: 'ada', scope: 'ada', grant: undefined, isTrusted: true, secrets };
    await using first = await startBench();
    const ticket = await first.builds.request(
      { ...rest, origin: { ...origin, options } },
      { ...caller, onBegin: () => () => {} },
    );
    await runningAre(first, ['private']);
    await first.builds.close();
    await using second = first.restart();
    await second.builds.resume();
    const { succeeded, reason } = await second.builds.settled(idOf(ticket), 30_000);
    assert.equal(succeeded, false);
    assert.match(
      reason ?? '',
      /restarted and has lost the secrets and SSH keys of this build: request .* again/,
    );
  }
});
