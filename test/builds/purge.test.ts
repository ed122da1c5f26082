/** Builds that need not be kept any longer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';
import { ask, idOf, made, runningAre, startBench } from './build-bench.ts';

// The expected state comes much sooner, except on a busy machine.
const patienceMs = 30_000;

test('old builds are deleted with their logs, except those of live requests', async () => {
  const clock = { now: Date.now() };
  await using world = await startBench({ now: () => clock.now });
  const requests = createRequestStore(world.database);
  const ids: string[] = [];
  for (const key of ['gone', 'needed', 'expired']) {
    ids.push(idOf(await ask(world, key)));
    await runningAre(world, [key]);
    world.running[0]?.succeed();
    await world.builds.settled(ids.at(-1) ?? '', patienceMs);
  }
  const running = idOf(await ask(world, 'running'));
  const soon = clock.now;
  const request = (key: string, buildId: string | undefined, expiresAt = soon + 120_000) =>
    requests.insert(Buffer.from(key), {
      createdAt: 1,
      expiresAt,
      body: '{}',
      needs: Buffer.alloc(0),
      buildId,
    });
  await request('needed', ids[1]);
  await request('expired', ids[2], 1);
  await request('none', undefined);

  await world.builds.purge();
  const leftOf = async (wanted: string[]) => {
    const rows = await Promise.all(wanted.map(world.store.find));
    return wanted.filter((_, at) => rows[at]);
  };
  assert.deepEqual(await leftOf(ids), ids, 'they are not old');
  clock.now = soon + 60_001;
  await world.builds.purge();
  assert.deepEqual(await leftOf([...ids, running]), [ids[1], running]);
  assert.equal(await world.logOf(ids[0] ?? ''), '');
  await assert.rejects(() => world.builds.get(ids[0] ?? ''), /The build does not exist/);
  // The image still exists.
  const there = { isCached: true, succeeded: true, image: made };
  assert.deepEqual(await ask(world, 'gone'), { id: undefined, ...there });
});

test('a build that is requested while it is being deleted keeps its log', async () => {
  const clock = { now: Date.now() };
  await using world = await startBench({
    now: () => clock.now,
    async remove({ id }, at) {
      await createRequestStore(world.database).insert(Buffer.from('late'), {
        ...{
          createdAt: at,
          expiresAt: at + 60_000,
          body: '{}',
          needs: Buffer.alloc(0),
          buildId: id,
        },
      });
      return world.store.remove(id, at);
    },
  });
  const id = idOf(await ask(world, 'one'));
  await runningAre(world, ['one']);
  world.running[0]?.fail(new Fault('build-failed', 'broken'));
  await world.builds.settled(id, patienceMs);
  const log = await world.logOf(id);
  assert.match(log, /broken/);
  clock.now += 60_001;
  await world.builds.purge();
  assert.equal((await world.builds.get(id)).id, id);
  assert.equal(await world.logOf(id), log);
});
