/** Limits of pulls that replicas answer before the leader has counted them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLimiter } from '../../src/http/limits/limiter.ts';
import { createPullMeter } from '../../src/http/registry/pull-meter.ts';
import type { ReportedPull } from '../../src/http/registry/reported-pulls.ts';
import { createPullCounter } from '../../src/pull/pull-counter.ts';
import { LeaderOnly } from '../../src/server/replicas/reads/leader-only.ts';
import { createPullLeases } from '../../src/server/replicas/reads/pull-leases.ts';
import { pull, type Replica, request, startSite, usualRates } from './reported-pulls-world.ts';

/** Returns the pulls that four replicas admit, those that one server admits at the same moments, and how many are refused. */
async function countAtFour(limit: number, rounds: number, stepMs: number) {
  const rates = { ...usualRates, anonymous: { count: limit, seconds: 3600 } };
  const site = startSite(rates);
  const { clock, counted } = site;
  const replicas = Array.from({ length: 4 }, () => ({ reporter: site.createReplica() }));
  const now = () => clock.now;
  let single = 0;
  const meter = createPullMeter({
    counter: createPullCounter(now),
    limiter: createLimiter('pulls', now),
    rates,
    usage: { add() {} } as never,
    record() {
      single += 1;
    },
  });
  let seed = 7;
  const below = (count: number): number => {
    seed = (seed * 48_271) % (2 ** 31 - 1);
    return Math.floor((seed / 2 ** 31) * count);
  };
  const flushAll = () => Promise.all(replicas.map(({ reporter }) => reporter.flush()));
  let flushedAt = 0;
  let refused = 0;
  for (let round = 0; round < rounds; round += 1) {
    clock.now += below(stepMs);
    // Clients ask several replicas at once, and again within the same pull.
    const pulls = Array.from({ length: 1 + below(3) }, () => ({
      client: `192.0.2.${below(2)}`,
      token: `token ${below(2)}`,
      replica: replicas[below(4)] as Replica,
    }));
    const results = await Promise.allSettled(
      pulls.map(({ client, token, replica }) => pull(replica, client, token)),
    );
    for (const result of results) {
      if (result.status === 'fulfilled') continue;
      assert.ok(result.reason instanceof LeaderOnly);
      refused += 1;
    }
    if (clock.now - flushedAt >= 500) {
      await flushAll();
      flushedAt = clock.now;
    }
    for (const { client, token } of pulls) {
      try {
        if (!meter.admit(client, request(token))) meter.count(client, request(token));
      } catch {
        // The limit is reached.
      }
    }
  }
  await flushAll();
  for (const { reporter } of replicas) reporter.close();
  return { counted: counted.length, single, refused };
}

test('four replicas admit what one server does, within 5 %', async () => {
  for (const [limit, stepMs, rounds] of [
    [20, 15_000, 200],
    [160, 15_000, 1000],
    [10_000, 15_000, 200],
    [10_000, 500, 1000],
  ] as const) {
    const { counted, single, refused } = await countAtFour(limit, rounds, stepMs);
    assert.equal(refused > 0, limit < 10_000, `${refused} refused, limit ${limit}`);
    const said = `${counted} pulls, and ${single} at a single server, limit ${limit}`;
    assert.ok(Math.abs(counted / single - 1) <= 0.05, said);
  }
});

test('far from a limit, the leader is not asked about each pull, and counts all of them', async () => {
  const site = startSite({ ...usualRates, anonymous: { count: 800, seconds: 3600 } });
  const { clock, counted, messages, reporter } = site;
  const asked = () => messages.flat().filter(one => one.kind === 'served' && one.what !== 'done');
  assert.equal(await pull(site, 'client', 'first'), '799');
  // Ten may be on their way, the checks beside them not counted.
  for (let at = 0; at < 10; at += 1) {
    await reporter.meter.check?.('client', request(`token ${at}`));
    assert.equal(await pull(site, 'client', `token ${at}`), String(798 - at));
  }
  assert.deepEqual([asked().length, counted.length], [1, 1]);
  assert.equal(reporter.meter.headers('client', request('token 1'))['ratelimit-limit'], '800');
  assert.equal(await pull(site, 'client', 'eleventh'), '788');
  assert.equal(asked().length, 2);
  await reporter.flush();
  assert.equal(counted.length, 12);
  // The leader renews what it allows with each message, and only one that is old is not used.
  for (let round = 0; round < 5; round += 1) {
    for (let at = 0; at < 10; at += 1) await pull(site, 'client', `${round} ${at}`);
    await reporter.flush();
    clock.now += 9999;
  }
  assert.deepEqual([asked().length, counted.length], [2, 62]);
  clock.now += 1;
  assert.equal(await pull(site, 'client', 'later'), '737');
  assert.equal(asked().length, 3);
  // Others have limits of their own.
  await pull(site, 'client 2', 'first');
  assert.equal(asked().length, 4);
  reporter.close();
});

test('an eightieth of a limit, or a sixteenth of what is left, may be on its way', async () => {
  const limit = 8000;
  const { site } = startSite({ ...usualRates, anonymous: { count: limit, seconds: 3600 } });
  const done = (token: string): ReportedPull => ({
    ...{ kind: 'served', client: 'client', token },
    what: 'done',
  });
  const replies = await site.leader?.(Array.from({ length: limit + 1 }, (_, at) => done(`${at}`)));
  const mostUncounted = (counted: number) => replies?.[counted - 1]?.mostUncounted;
  assert.deepEqual([mostUncounted(1), mostUncounted(limit - 1600)], [100, 100]);
  assert.deepEqual([mostUncounted(limit - 1599), mostUncounted(limit - 1584)], [99, 99]);
  assert.deepEqual([mostUncounted(limit - 16), mostUncounted(limit - 15)], [1, 0]);
  assert.deepEqual([mostUncounted(limit), mostUncounted(limit + 1)], [0, 0]);
});

test('what the leader said before is not believed after what it says later', async () => {
  const limit = 800;
  const site = startSite({ ...usualRates, anonymous: { count: limit, seconds: 3600 } });
  const { clock, counted, reporter, site: state } = site;
  assert.equal(await pull(site, 'client', 'first'), String(limit - 1));
  const pullAll = (name: string) =>
    Promise.allSettled(
      Array.from({ length: 10 }, (_, at) => pull(site, 'client', `${name} ${at}`)),
    );
  await pullAll('leased');
  const leader = state.leader ?? assert.fail();
  // The reply to a pull that the leader is asked about is late.
  const late = Promise.withResolvers<void>();
  state.leader = async pulls => {
    const replies = await leader(pulls);
    await late.promise;
    return replies;
  };
  clock.now += 100;
  const asked = pull(site, 'client', 'asked');
  await new Promise(setImmediate);
  state.leader = leader;
  const rest = Array.from({ length: limit }, (_, at) => `of others ${at}`);
  await leader(rest.map(token => ({ kind: 'served', client: 'client', token, what: 'pull' })));
  clock.now += 1;
  await reporter.flush();
  late.resolve();
  assert.equal(await asked, '0');
  const results = await pullAll('later');
  assert.ok(results.every(({ status }) => status === 'rejected'));
  // Ten were on their way when nothing was left.
  assert.equal(counted.length, limit + 10);
  reporter.close();
});

test('of the pulls in one message, the reply that allows least counts', () => {
  const leases = createPullLeases(() => 1);
  const reply = (mostUncounted: number, sentAt: number) => ({
    isAdmitted: true,
    mostUncounted,
    allowance: { limit: 800, remaining: 16 * mostUncounted, resetSeconds: 60 },
    sentAt,
  });
  assert.equal(leases.note('key', reply(2, 1))?.remaining, 32);
  assert.equal(leases.note('key', reply(5, 1))?.remaining, 32);
  assert.equal(leases.note('key', reply(1, 1))?.remaining, 16);
  const first = leases.take('key');
  assert.equal(first?.allowance?.remaining, 15);
  assert.equal(leases.take('key'), undefined);
  first.settle(undefined);
  assert.ok(leases.check('key'));
  assert.equal(leases.check('other'), undefined);
  assert.equal(leases.note('ended', { isAdmitted: false, sentAt: 1 }), undefined);
  assert.equal(leases.note('key', reply(0, 0))?.remaining, 16);
  assert.equal(leases.note('key', reply(0, 2))?.remaining, 0);
  assert.equal(leases.check('key'), undefined);
});

test('a lease of a leader that sends no allowance counts', () => {
  const leases = createPullLeases(() => 1);
  assert.equal(leases.note('key', { isAdmitted: true, mostUncounted: 1, sentAt: 1 }), undefined);
  assert.deepEqual(leases.check('key'), { allowance: undefined });
  assert.equal(leases.take('key')?.allowance, undefined);
  assert.equal(leases.take('key'), undefined);
});

test('near a limit, the leader is asked about each pull', async () => {
  const site = startSite({ ...usualRates, anonymous: { count: 800, seconds: 3600 } });
  const { counted, reporter } = site;
  for (let at = 0; at < 800; at += 1) {
    await pull(site, 'client', `token ${at}`);
    if (at % 7 === 0) await reporter.flush();
  }
  await assert.rejects(pull(site, 'client', 'one more'), LeaderOnly);
  await assert.rejects(async () => reporter.meter.check?.('client', request('x')), LeaderOnly);
  await reporter.flush();
  assert.equal(counted.length, 800);
  reporter.close();
});

test('four replicas that use all that they may at one moment exceed a limit by at most 5 %', async () => {
  const limit = 800;
  const site = startSite({ ...usualRates, anonymous: { count: limit, seconds: 3600 } });
  const { counted } = site;
  const replicas = Array.from({ length: 4 }, () => ({ reporter: site.createReplica() }));
  for (const [at, replica] of replicas.entries()) await pull(replica, 'client', `first ${at}`);
  // Another way to the leader takes all that is left.
  const take = (token: string): ReportedPull => ({
    ...{ kind: 'served', client: 'client', token },
    what: 'pull',
  });
  const rest = Array.from({ length: limit }, (_, at) => take(`of others ${at}`));
  const replies = (await site.site.leader?.(rest)) ?? [];
  assert.equal(replies.filter(({ isAdmitted }) => isAdmitted).length, limit - 4);
  let beyond = 0;
  for (const [at, replica] of replicas.entries()) {
    for (let one = 0; one < 40; one += 1) {
      await pull(replica, 'client', `late ${at} ${one}`).then(
        () => {
          beyond += 1;
        },
        error => assert.ok(error instanceof LeaderOnly),
      );
    }
  }
  await Promise.all(replicas.map(({ reporter }) => reporter.flush()));
  for (const { reporter } of [...replicas, site]) reporter.close();
  assert.equal(beyond, limit * 0.05);
  assert.equal(counted.length, limit + beyond);
});
