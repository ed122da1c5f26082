/** Users before anonymous callers: who gets a permit, when many callers want one. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createPermits, type Shares } from '../../src/builds/build-limits.ts';
import type { Permit } from '../../src/foundation/semaphore.ts';
import { shared } from './build-bench.ts';

const never = new AbortController().signal;

/** Callers whose builds run until the test ends them. */
function createSite(shares: Shares) {
  let clock = 0;
  const permits = createPermits(shares, () => clock);
  const running: { readonly owner: string; readonly permit: Permit }[] = [];
  const began: string[] = [];
  const want = async (owner: string, isTrusted: boolean) => {
    const permit = await permits.take({ owner, isTrusted }, never);
    running.push({ owner, permit });
    began.push(owner);
  };
  return {
    /** Owners of all builds in the order in which they began. */
    began,
    /** Owners of running builds. */
    running: () => running.map(({ owner }) => owner),
    /** Requests builds of callers, one after the other. */
    async users(owners: readonly string[]) {
      for (const owner of owners) void want(owner, true);
      await turn();
    },
    async anonymous(owners: readonly string[]) {
      for (const owner of owners) void want(owner, false);
      await turn();
    },
    /** Lets time pass (ms). */
    pass(ms: number) {
      clock += ms;
    },
    /** Ends the oldest running build, of this owner if one is given. */
    async end(owner = running[0]?.owner) {
      const at = running.findIndex(one => one.owner === owner);
      assert.ok(at >= 0, `${owner} runs a build`);
      running.splice(at, 1)[0]?.permit[Symbol.dispose]();
      await turn();
    },
  };
}

const names = (start: string, count: number) =>
  Array.from({ length: count }, (_, at) => `${start}${at}`);

suite('users and strangers', () => {
  for (const networks of [10, 256]) {
    test(`long builds of ${networks} networks do not delay the builds of a user`, async () => {
      const site = createSite(shared(2, { ofAnonymous: 1 }));
      await site.anonymous(names('network', networks));
      assert.deepEqual(site.running(), ['network0']);
      for (let count = 0; count < 20; count += 1) {
        await site.users(['ada']);
        assert.deepEqual(site.running(), ['network0', 'ada'], 'at once');
        await site.end('ada');
      }
    });
  }

  test('a free permit goes to a user who waits, although strangers came first', async () => {
    const site = createSite(shared(2, { ofAnonymous: 1 }));
    await site.users(['ada', 'ada']);
    await site.anonymous(names('network', 10));
    await site.users(['grace']);
    await site.end('ada');
    assert.deepEqual(site.running(), ['ada', 'grace']);
    await site.end('ada');
    assert.deepEqual(site.running(), ['grace', 'network0']);
  });

  test('strangers alone use all that they may, and networks take turns', async () => {
    const site = createSite(shared(4, { ofAnonymous: 3 }));
    await site.anonymous(['a', 'a', 'a', 'a', 'b', 'c']);
    assert.deepEqual(site.running(), ['a', 'a', 'a']);
    for (let count = 0; count < 3; count += 1) await site.end();
    assert.deepEqual(site.began.slice(3), ['b', 'c', 'a']);
    await site.anonymous(['d']);
    assert.equal(site.running().length, 3);
  });

  test('strangers use all permits where no share is kept for users', async () => {
    const site = createSite(shared(2));
    await site.anonymous(['a', 'b', 'c']);
    await site.users(['ada']);
    await site.end();
    assert.deepEqual(site.running(), ['b', 'ada']);
  });

  for (const permits of [1, 2, 3]) {
    test(`users who always wait for ${permits} permits let a stranger pass after each eight of them`, async () => {
      const site = createSite(shared(permits, { ofAnonymous: Math.max(1, permits - 1) }));
      await site.users(names('user', permits));
      await site.anonymous(names('network', 40));
      const inPeriod = 8 + permits;
      for (let count = 0; count < 10 * inPeriod; count += 1) {
        await site.users([`user${count % 7}`, `user${count % 5}`]);
        await site.end();
      }
      const anonymous = site.began.slice(permits).map(name => name.startsWith('network'));
      // While an anonymous caller's build runs, no user counts.
      const places = anonymous.flatMap((is, at) => (is ? [at] : []));
      assert.deepEqual(
        places,
        Array.from({ length: 10 }, (_, nth) => 8 + nth * inPeriod),
      );
    });
  }

  test('after a long build of a stranger, users who always wait get eight times its time', async () => {
    const site = createSite(shared(1));
    await site.anonymous(names('network', 40));
    const hour = 3_600_000;
    await site.users(names('user', 50));
    site.pass(hour);
    await site.end('network0');
    for (let count = 0; count < 200; count += 1) {
      await site.users([`user${count % 50}`]);
      site.pass(hour / 10);
      await site.end();
    }
    const places = site.began.flatMap((owner, at) => (owner.startsWith('network') ? [at] : []));
    // An hour, then 80 builds of six minutes. The second stranger takes six minutes only: eight builds.
    assert.deepEqual(places.slice(0, 4), [0, 81, 90, 99]);
  });

  test('a stranger who runs a build leaves all other permits to users who wait', async () => {
    const site = createSite(shared(3, { ofAnonymous: 2 }));
    await site.anonymous(names('network', 40));
    await site.users(['ada', ...names('user', 60)]);
    await site.end('network0');
    for (let count = 0; count < 30; count += 1) {
      const first = site.running().find(owner => !owner.startsWith('network'));
      await site.end(first);
    }
    assert.deepEqual(
      site.began.filter(owner => owner.startsWith('network')),
      ['network0', 'network1'],
    );
  });
});

suite('users among themselves', () => {
  test('50 users on two permits each get their turn, whatever one of them has waiting', async () => {
    const site = createSite(shared(2, { ofAnonymous: 1 }));
    await site.users(Array.from({ length: 100 }, () => 'greedy'));
    const users = names('user', 50);
    await site.users([...users, ...users, ...users]);
    const rounds = 3 * 50;
    for (let count = 0; count < rounds; count += 1) await site.end();
    const turns = site.began.slice(2);
    // Nobody gets a second build before everybody has one: 50 users and the greedy one.
    for (const user of users) {
      const places = turns.flatMap((owner, at) => (owner === user ? [at] : []));
      assert.ok(
        places[0] !== undefined && places[0] < 53,
        `${user} waited for ${places[0]} builds`,
      );
    }
    assert.ok(turns.filter(owner => owner === 'greedy').length <= 4);
  });

  test('users who come all the time do not starve one who waits', async () => {
    const site = createSite(shared(2, { ofAnonymous: 1 }));
    await site.users(['a', 'b', 'patient']);
    for (let count = 0; count < 3; count += 1) {
      await site.users(['a', 'b', `new${count}`]);
      await site.end();
    }
    assert.ok(site.began.indexOf('patient') <= 3, site.began.join());
  });

  test('one caller holds at most its share, although permits are free', async () => {
    const site = createSite(shared(3, { ofOne: 2 }));
    await site.users(['ada', 'ada', 'ada']);
    await site.anonymous(['network', 'network', 'network']);
    assert.deepEqual(site.running(), ['ada', 'ada', 'network']);
    await site.end('network');
    await site.end('ada');
    assert.deepEqual(site.running(), ['ada', 'network', 'ada']);
    await site.end('network');
    await site.end('ada');
    assert.deepEqual(site.running(), ['ada', 'network']);
  });
});
