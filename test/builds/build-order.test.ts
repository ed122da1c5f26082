/** The queue of builds with users and anonymous callers: its room, its order, and builds that both want. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, type Bench, idOf, runningAre, shared, startBench } from './build-bench.ts';

const askAsUser = (world: Bench, key: string, owner: string) =>
  ask(world, key, owner, undefined, true);
const concurrent = shared(2, { ofAnonymous: 1 });

test('long builds of ten networks do not delay the build of a user', async () => {
  await using world = await startBench({ concurrent });
  for (let at = 0; at < 10; at += 1) await ask(world, `long${at}`, `192.0.2.${at}`);
  await runningAre(world, ['long0']);
  await askAsUser(world, 'short', 'ada');
  await runningAre(world, ['long0', 'short']);
  world.running[1]?.succeed();
  await runningAre(world, ['long0']);
});

test('strangers fill only their part of the queue, and the refusal says what to do', async () => {
  await using world = await startBench({ waiting: shared(6, { ofOne: 4, ofAnonymous: 3 }) });
  const first = idOf(await ask(world, 'one', 'network of one'));
  for (const key of ['two', 'three']) await ask(world, key, `network of ${key}`);
  await assert.rejects(ask(world, 'four', 'another network'), {
    kind: 'unavailable',
    retryAfterSeconds: 60,
    message:
      '3 builds of callers without a login run or wait already, which is the limit (builds.maxWaitingAnonymous): send the request with an access token, or try again later',
  });
  for (const key of ['five', 'six', 'seven']) await askAsUser(world, key, 'ada');
  await assert.rejects(askAsUser(world, 'eight', 'grace'), { message: /builds\.maxWaiting\)/ });
  await runningAre(world, ['one', 'two']);
  world.running[0]?.succeed();
  await world.builds.settled(first, 30_000);
  await runningAre(world, ['two', 'five']);
  await ask(world, 'four', 'another network');
});

test('requests of strangers at the same instant do not exceed their part', async () => {
  await using world = await startBench({ waiting: shared(100, { ofAnonymous: 3 }) });
  const asked = Array.from({ length: 10 }, (_, at) => ask(world, `key${at}`, `network${at}`));
  const settled = await Promise.allSettled(asked);
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 3);
});

test("a stranger's build that a user waits for takes the place of a user's", async () => {
  await using world = await startBench({ concurrent });
  for (const key of ['long', 'other', 'wanted']) await ask(world, key, `network of ${key}`);
  await runningAre(world, ['long']);
  const anonymous = idOf(await ask(world, 'wanted', 'network of wanted'));
  assert.deepEqual(world.builds.queueAt(anonymous), { before: 1, all: 2 });
  assert.equal(idOf(await askAsUser(world, 'wanted', 'ada')), anonymous);
  await runningAre(world, ['long', 'wanted']);
  // It is one of the builds of this user now.
  world.running[0]?.succeed();
  await runningAre(world, ['wanted', 'other']);
});

test('the place in the queue counts users first', async () => {
  await using world = await startBench({ concurrent: shared(1) });
  await ask(world, 'long', 'network');
  const anonymous = idOf(await ask(world, 'first', 'network'));
  const user = idOf(await askAsUser(world, 'second', 'ada'));
  const last = idOf(await askAsUser(world, 'third', 'ada'));
  const places = [user, last, anonymous].map(id => world.builds.queueAt(id).before);
  assert.deepEqual(places, [0, 1, 2]);
});
