/** The queue of builds: simultaneous events, and the builds that a server leaves to the next one. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Requester } from '../../src/builds/build-request.ts';
import type { BuildPlan } from '../../src/builds/plan/build-plan.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { noTally, type Tally } from '../../src/foundation/telemetry/tally.ts';
import type { SealedGrant } from '../../src/platform/identities.ts';
import { ask, idOf, made, plan, runningAre, shared, startBench } from './build-bench.ts';

/** Long enough for work that waits for nothing. */
const settle = () => sleep(20);

// The expected state comes much sooner, except on a busy machine.
const patienceMs = 30_000;

suite('requests at the same instant', () => {
  test('callers share one build, and only the first is counted', async () => {
    await using world = await startBench();
    const counted: string[] = [];
    const owners = ['a', 'b', 'a', 'c'];
    const tickets = await Promise.all(
      owners.map(owner =>
        ask(world, 'one', owner, () => {
          counted.push(owner);
          return () => {};
        }),
      ),
    );
    assert.equal(new Set(tickets.map(idOf)).size, 1);
    assert.deepEqual(counted, ['a']);
    await runningAre(world, ['one']);
    await settle();
    assert.equal(world.running.length, 1);
  });

  test('a caller without the right to build does not block other callers', async () => {
    await using world = await startBench();
    const refused = ask(world, 'one', 'a', () => {
      throw new Fault('too-many-requests', 'enough');
    });
    const [first, second] = await Promise.allSettled([refused, ask(world, 'one', 'b')]);
    assert.equal(first.status === 'rejected' && first.reason.message, 'enough');
    assert.equal(second.status, 'fulfilled');
    assert.equal((await world.store.unfinished(0, 100)).length, 1);
  });

  test('a slower caller finds the build of a faster one, also a finished build', async () => {
    const slow = Promise.withResolvers<void>();
    let asked = 0;
    await using world = await startBench({
      admit: async () => {
        asked += 1;
        if (asked === 2) await slow.promise;
      },
    });
    const [first, second] = [ask(world, 'one', 'a'), ask(world, 'one', 'b')];
    const ticket = await first;
    await runningAre(world, ['one']);
    world.running[0]?.succeed();
    await world.builds.settled(idOf(ticket), patienceMs);
    slow.resolve();
    assert.deepEqual(await second, { id: ticket.id, isCached: true, succeeded: true });
    assert.equal(world.running.length, 0);
  });

  test('a caller who missed a build by a moment does not start it again', async () => {
    const slow = Promise.withResolvers<undefined>();
    let looks = 0;
    await using world = await startBench({
      find: async () => {
        looks += 1;
        return looks === 1 ? undefined : slow.promise;
      },
    });
    const first = await ask(world, 'one', 'a');
    const second = ask(world, 'one', 'b');
    await runningAre(world, ['one']);
    world.running[0]?.succeed();
    await world.builds.settled(idOf(first), patienceMs);
    slow.resolve(undefined);
    assert.deepEqual(await second, { id: first.id, isCached: true, succeeded: true });
  });

  test('an image whose build has not ended has this build, also after kill -9', async () => {
    await using world = await startBench();
    const asked = await ask(world, 'one', 'a');
    await runningAre(world, ['one']);
    world.images.add(plan('one').target);
    const during = await ask(world, 'one', 'b');
    assert.deepEqual([during.isCached, during.id], [true, asked.id]);
    assert.equal(await world.builds.isCaller(idOf(asked), { owner: 'b', limits: '' }), true);

    await using next = world.restart({ find: async () => made });
    assert.equal((await ask(next, 'one', 'b')).id, asked.id);
    await next.builds.resume();
    await runningAre(next, ['one']);
    next.running[0]?.succeed();
    await next.builds.settled(idOf(asked), patienceMs);
    assert.equal((await ask(next, 'one', 'b')).id, asked.id);
  });

  test('an image from elsewhere has no build, whatever build of its name failed', async () => {
    await using world = await startBench();
    const asked = await ask(world, 'one', 'a');
    await runningAre(world, ['one']);
    world.running[0]?.fail(new Fault('build-failed', 'broken'));
    await world.builds.settled(idOf(asked), patienceMs);
    world.images.add(plan('one').target);
    const after = await ask(world, 'one', 'a');
    assert.deepEqual([after.isCached, after.id], [true, undefined]);
  });

  test('a build with secrets, and its image, are only for callers who may push the image', async () => {
    await using world = await startBench({
      admit: async (_, { owner }) => {
        if (owner !== 'a') throw new Fault('denied', 'no right to push');
      },
    });
    const secret = { ...plan('one') };
    const origin = { ...secret.origin, options: { secretIds: ['token'] } } as BuildPlan['origin'];
    const askAs = (owner: string) =>
      world.builds.request(
        { ...secret, origin },
        {
          ...{ owner, scope: owner, grant: undefined, isTrusted: true, onBegin: () => () => {} },
          secrets: { values: { token: 'aGVsbG8=' }, sshKeys: {} },
        },
      );
    const id = idOf(await askAs('a'));
    await runningAre(world, ['one']);
    await assert.rejects(askAs('b'), /no right to push/);
    assert.equal(await world.builds.isCaller(id, { owner: 'b', limits: '' }), false);
    world.running[0]?.succeed();
    await world.builds.settled(id, patienceMs);
    await assert.rejects(askAs('b'), /no right to push/);
    assert.equal((await askAs('a')).id, id);
  });

  test('a build uses what was shown to its own caller only', async () => {
    const shown = { at: performance.now(), bases: [] };
    const callerOf = (owner: string) => ({
      ...{ owner, scope: owner, grant: undefined, isTrusted: true, shown },
      onBegin: () => () => {},
    });
    const given: unknown[] = [];
    await using first = await startBench();
    const restarted = await first.builds.request(plan('one'), callerOf('a'));
    await first.builds.close();
    await using second = first.restart({
      async solve(run) {
        given.push([run.owner, run.shown]);
        return made;
      },
    });
    for (const key of ['one', 'two']) {
      const ticket = await second.builds.request(plan(key), callerOf('b'));
      if (key === 'one') assert.equal(ticket.id, restarted.id);
      await second.builds.settled(idOf(ticket), patienceMs);
    }
    assert.deepEqual(given, [
      ['a', undefined],
      ['b', shown],
    ]);
  });

  test('a request during the resumption of builds joins them', async () => {
    await using first = await startBench();
    const before = await ask(first, 'one');
    await first.builds.close();
    await using second = first.restart();
    await second.builds.resume();
    assert.equal((await ask(second, 'one')).id, before.id);
    await runningAre(second, ['one']);
    await settle();
    assert.equal(second.running.length, 1);
  });
});

suite('the queue', () => {
  test('twenty builds of one caller do not delay the single build of another', async () => {
    await using world = await startBench();
    for (let count = 0; count < 20; count += 1) await ask(world, `many${count}`, 'many');
    await ask(world, 'single', 'other');
    await runningAre(world, ['many0', 'many1']);
    world.running[0]?.succeed();
    await runningAre(world, ['many1', 'single']);
  });

  test('the caller of a build is remembered over a restart', async () => {
    await using first = await startBench({ concurrent: shared(1) });
    for (let count = 0; count < 5; count += 1) await ask(first, `many${count}`, 'many');
    await ask(first, 'single', 'other', undefined, true);
    await first.builds.close();
    await using second = first.restart();
    await second.builds.resume();
    await runningAre(second, ['many0']);
    second.running[0]?.succeed();
    await runningAre(second, ['single']);
    assert.equal((await second.store.latest(plan('single').target))?.isTrusted, true);
  });

  test('a build waits for a builder without using a permit or its own time limit', async () => {
    const there = Promise.withResolvers<void>();
    let isComing = true;
    await using world = await startBench({
      concurrent: shared(1),
      timeLimits: { usual: 2000, trusted: 2000 },
      builders: {
        isComing: () => isComing,
        untilThere: (_, signal) => {
          const { promise, resolve, reject } = Promise.withResolvers<void>();
          signal.addEventListener('abort', () => reject(signal.reason));
          there.promise.then(resolve);
          return promise;
        },
      },
    });
    const { id = '' } = await ask(world, 'one');
    await sleep(2100);
    const row = await world.builds.get(id);
    assert.deepEqual([row.startedAt, row.finishedAt], [null, null]);
    assert.equal(world.builds.waitsFor(row), 'BuildKit, which is being installed');
    assert.match(await world.logOf(id), /^Waiting for BuildKit/);
    // Builds without a builder continue.
    const copy = {
      ...plan('copy'),
      origin: { kind: 'image', repository: '', digest: made.digest, mediaType: '' },
    };
    await world.builds.request(copy as BuildPlan, {
      ...{ owner: 'a', scope: 'a', grant: undefined },
      ...{ isTrusted: false, onBegin: () => () => {} },
    });
    await runningAre(world, ['copy']);
    world.running[0]?.succeed();
    isComing = false;
    there.resolve();
    await runningAre(world, ['one']);
    world.running[0]?.succeed();
    assert.equal((await world.builds.settled(id, patienceMs)).succeeded, true);
  });

  test('callers with a login have a longer time limit', async () => {
    await using world = await startBench({ timeLimits: { usual: 30, trusted: 600 } });
    const usual = await ask(world, 'usual', 'a');
    const trusted = await ask(world, 'trusted', 'b', undefined, true);
    const over = await world.builds.settled(idOf(usual), patienceMs);
    assert.match(over.reason ?? '', /longer than .* allowed: .* raise builds\.timeLimit$/);
    const later = await world.builds.settled(idOf(trusted), patienceMs);
    const took = (later.finishedAt ?? 0) - (later.startedAt ?? 0);
    assert.ok(took >= 590, `${took} ms`);
    assert.match(later.reason ?? '', /raise builds\.trustedTimeLimit$/);
    assert.match(await world.logOf(idOf(usual)), /The build failed: The build took longer/);
  });
});

suite('the end of a build', () => {
  test('a build that is cancelled in the queue never starts, and frees its place', async () => {
    await using world = await startBench({ concurrent: shared(1) });
    await ask(world, 'one');
    const queued = idOf(await ask(world, 'two'));
    await ask(world, 'three');
    assert.equal(await world.builds.cancel(queued), 'cancelled');
    const over = await world.builds.settled(queued, patienceMs);
    assert.deepEqual([over.succeeded, over.startedAt], [false, null]);
    assert.equal(over.reason, 'The build was cancelled');
    assert.equal(await world.builds.cancel(queued), 'over');
    await runningAre(world, ['one']);
    world.running[0]?.succeed();
    await runningAre(world, ['three']);
  });

  test('a token that is limited to repositories has only builds of such tokens', async () => {
    await using world = await startBench();
    const askAs = (key: string, limits: string) =>
      world.builds.request(plan(key), {
        ...{ owner: 'a', scope: `a${limits}`, grant: limits as SealedGrant },
        ...{ isTrusted: true, onBegin: () => () => {} },
      });
    const [whole, one, other] = ['', ' ["one"]', ' ["other"]'].map(limits => ({
      ...{ owner: 'a', limits },
    })) as [Requester, Requester, Requester];
    const seenBy = async (id: string) => {
      const row = await world.builds.get(id);
      return Promise.all(
        [whole, one, other].map(async caller => {
          const isCaller = await world.builds.isCaller(id, caller);
          assert.equal(world.builds.isOf(row, caller), isCaller);
          return isCaller;
        }),
      );
    };
    const ofWhole = idOf(await askAs('whole', whole.limits));
    const ofOne = idOf(await askAs('limited', one.limits));
    assert.deepEqual(await seenBy(ofWhole), [true, false, false]);
    assert.deepEqual(await seenBy(ofOne), [true, true, false]);
    // A token that asks for the same image leaves the build to the others.
    assert.equal(idOf(await askAs('whole', other.limits)), ofWhole);
    assert.equal(await world.builds.cancel(ofWhole, other), 'others-wait');
    assert.equal(await world.builds.cancel(ofWhole, whole), 'cancelled');
    assert.equal(await world.builds.cancel(ofOne, whole), 'cancelled');
    for (const id of [ofWhole, ofOne]) await world.builds.settled(id, patienceMs);
    assert.deepEqual(await seenBy(ofWhole), [true, false, false]);
    assert.deepEqual(await seenBy(ofOne), [true, true, false]);
  });

  test('a cancelled build does not restart with the next server', async () => {
    await using first = await startBench();
    const id = idOf(await ask(first, 'one'));
    await runningAre(first, ['one']);
    await first.builds.cancel(id);
    await first.builds.close();
    assert.equal((await first.store.find(id))?.reason, 'The build was cancelled');
    assert.deepEqual(await first.store.unfinished(0, 100), []);
  });

  test('a stopping server leaves running and queued builds to the next one', async () => {
    await using first = await startBench({ concurrent: shared(1) });
    const ids = [idOf(await ask(first, 'one')), idOf(await ask(first, 'two'))];
    await runningAre(first, ['one']);
    await first.builds.close();
    assert.deepEqual(
      (await first.store.unfinished(0, 100)).map(({ id }) => id),
      ids,
    );
    await using second = first.restart();
    await second.builds.resume();
    await runningAre(second, ['one']);
    assert.match(await second.logOf(ids[0] ?? ''), /server stops[\s\S]*starts again/);
    second.running[0]?.succeed();
    await runningAre(second, ['two']);
    second.running[0]?.succeed();
    assert.equal((await second.builds.settled(ids[1] ?? '', patienceMs)).succeeded, true);
  });

  test('a build that fails while the server stops is left to the next server', async () => {
    await using first = await startBench({ concurrent: shared(3) });
    const [lost, made, cancelled] = [
      idOf(await ask(first, 'lost')),
      idOf(await ask(first, 'made')),
      idOf(await ask(first, 'cancelled')),
    ];
    await runningAre(first, ['lost', 'made', 'cancelled']);
    first.builds.drain();
    await first.builds.cancel(cancelled);
    first.running[1]?.succeed();
    first.running[0]?.fail(new Fault('bad-request', 'the image cannot be pushed'));
    assert.equal((await first.builds.settled(lost, patienceMs)).succeeded, null);
    assert.equal((await first.builds.settled(made, patienceMs)).succeeded, true);
    assert.equal((await first.builds.settled(cancelled, patienceMs)).succeeded, false);
    // Its client is answered, and the next server makes it.
    await ask(first, 'late');
    await runningAre(first, ['late']);
    await first.builds.close();
    await assert.rejects(ask(first, 'new'), /The server is stopping/);
    await using second = first.restart();
    await second.builds.resume();
    await runningAre(second, ['lost', 'late']);
    assert.match(await second.logOf(lost), /server stops[\s\S]*starts again/);
  });

  test('a stopping server starts no builds', async () => {
    const slow = Promise.withResolvers<void>();
    await using world = await startBench({ admit: () => slow.promise });
    const refused = assert.rejects(ask(world, 'one'), /The server is stopping/);
    await settle();
    await world.builds.close();
    slow.resolve();
    await refused;
    assert.deepEqual(await world.store.unfinished(0, 100), []);
  });

  test('a clock that is set while a build runs does not change how long it counts', async () => {
    const clock = { now: Date.now() };
    const times: number[] = [];
    const tally: Tally = { ...noTally, observe: (_, __, ms) => void times.push(ms) };
    await using world = await startBench({ tally, now: () => clock.now });
    const id = idOf(await ask(world, 'one'));
    await runningAre(world, ['one']);
    clock.now += 24 * 3_600_000;
    world.running[0]?.succeed();
    await world.builds.settled(id, patienceMs);
    await world.builds.close();
    assert.equal(times.length, 2);
    assert.ok(Math.max(...times) < 3_600_000, String(times));
  });

  test('a failure is reported for a while, then the build is tried again', async () => {
    const clock = { now: Date.now() };
    await using world = await startBench({ retryAfterMs: 60_000, now: () => clock.now });
    const first = idOf(await ask(world, 'one'));
    await runningAre(world, ['one']);
    world.running[0]?.fail(new Fault('bad-request', 'it is wrong'));
    await world.builds.settled(first, patienceMs);
    assert.deepEqual(await ask(world, 'one'), {
      id: first,
      isCached: false,
      succeeded: false,
      reason: 'it is wrong',
    });
    clock.now += 60_000;
    const again = idOf(await ask(world, 'one'));
    assert.match(again, /^one_[0-9]+$/);
    assert.notEqual(again, first);
  });

  test('a failure dated in the future by a wrong clock is not reported', async () => {
    const clock = { now: Date.now() };
    await using world = await startBench({ retryAfterMs: 60_000, now: () => clock.now });
    const first = idOf(await ask(world, 'one'));
    await runningAre(world, ['one']);
    world.running[0]?.fail(new Fault('bad-request', 'it is wrong'));
    await world.builds.settled(first, patienceMs);
    clock.now -= 2 * 3_600_000;
    const again = await ask(world, 'one');
    assert.deepEqual([again.id === first, again.isCached], [false, false]);
    // The newest one counts, although it started earlier by the clock.
    await runningAre(world, ['one']);
    world.running[0]?.fail(new Fault('bad-request', 'it is still wrong'));
    await world.builds.settled(idOf(again), patienceMs);
    assert.deepEqual(await ask(world, 'one'), {
      ...again,
      succeeded: false,
      reason: 'it is still wrong',
    });
  });

  test('the number of waiting builds is limited, in total and for each caller', async () => {
    await using world = await startBench({ waiting: shared(3, { ofOne: 2 }) });
    await ask(world, 'one', 'a');
    await ask(world, 'two', 'a');
    await assert.rejects(ask(world, 'three', 'a'), { kind: 'too-many-requests' });
    await ask(world, 'three', 'b');
    await assert.rejects(ask(world, 'four', 'b'), { kind: 'unavailable' });
  });

  test('a failure of the server shows no internal details', async () => {
    await using world = await startBench();
    const id = idOf(await ask(world, 'one'));
    await runningAre(world, ['one']);
    world.running[0]?.fail(new TypeError('/secret/path is undefined'));
    const over = await world.builds.settled(id, patienceMs);
    assert.match(over.reason ?? '', /^The service failed: ask the operator/);
    assert.doesNotMatch(await world.logOf(id), /secret/);
  });
});
