/** Pulls that a replica answers, and the leader counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createTakePulls,
  type ReportedPull,
  readPullReplies,
  readReportedPulls,
} from '../../src/http/registry/reported-pulls.ts';
import { createGatheredPulls } from '../../src/server/replicas/reads/gathered-pulls.ts';
import { LeaderOnly } from '../../src/server/replicas/reads/leader-only.ts';
import { pull, type Replica, request, startSite } from './reported-pulls-world.ts';

const hostedPull = {
  client: '',
  isHead: false,
  repository: 'x',
  reference: 'y',
  digest: 'z' as never,
};

test('the leader limits the pulls of a replica, and counts each once', async () => {
  const site = startSite();
  const { counted, messages, reporter } = site;
  const remaining = await Promise.all(['a', 'b'].map(token => pull(site, 'client', token)));
  assert.deepEqual(remaining, ['1', '0']);
  // Further manifests of a pull ask nothing.
  const before = messages.length;
  assert.equal(await pull(site, 'client', 'a'), '1');
  assert.equal(messages.length, before);
  await assert.rejects(pull(site, 'client', 'c'), LeaderOnly);
  await assert.rejects(async () => reporter.meter.check?.('client', request('c')), LeaderOnly);
  await assert.rejects(pull(site, 'other', 'ended'), LeaderOnly);
  assert.equal(await pull(site, 'client', 'of a user'), undefined);
  await reporter.flush();
  assert.deepEqual(counted, ['a', 'b', 'of a user']);
  reporter.close();
});

test('a request that is only checked is not counted', async () => {
  const site = startSite();
  await site.reporter.meter.check?.('client', request('a'));
  assert.deepEqual(site.counted, []);
  assert.equal(await pull(site, 'client', 'a'), '1');
  site.reporter.close();
});

test('the leader says whether a right holds', async () => {
  const site = startSite();
  const { reporter } = site;
  assert.equal(await reporter.mayPull('a'), true);
  assert.equal(await reporter.mayPull('ended'), false);
  assert.equal(await reporter.mayPull('without a right'), false);
  site.site.leader = undefined;
  assert.equal(await reporter.mayPull('a'), false);
  reporter.close();
});

const brief = { timeout: 5000 };

test('a right that the leader cannot check at once holds up no pull', brief, async ({ mock }) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const site = startSite();
  const { reporter, messages } = site;
  const slow = reporter.mayPull('of a slow registry');
  assert.equal(await pull(site, 'client', 'a'), '1');
  assert.equal(await reporter.mayPull('b'), true);
  const answered = messages.length;
  mock.timers.tick(500);
  assert.equal(await slow, false);
  // The leader was reached: the next right is asked for at once, and the limit is that of the leader.
  assert.equal(await reporter.mayPull('c'), true);
  assert.equal(await pull(site, 'client', 'c'), '0');
  assert.equal(messages.length, answered + 2);
  reporter.close();
});

test('while the leader has lost its database, a replica limits by itself, and the leader counts later', async () => {
  const site = startSite();
  const { clock, counted, described, messages, reporter } = site;
  await pull(site, 'client', 'a');
  site.site.hasDatabase = false;
  await pull(site, 'client', 'b');
  await reporter.meter.check?.('client', request('c'));
  await pull(site, 'other', 'of a user');
  reporter.countHosted(hostedPull);
  messages.length = 0;
  await reporter.flush();
  assert.deepEqual([counted, site.hosted, messages.length], [['a'], ['x'], 1]);
  await pull(site, 'client', 'c');
  await assert.rejects(pull(site, 'client', 'd'), { kind: 'too-many-requests' });
  assert.equal(await reporter.mayPull('a'), false);
  site.site.hasDatabase = true;
  clock.now += 1000;
  await reporter.flush();
  assert.deepEqual(counted, ['a', 'b', 'of a user', 'c']);
  assert.deepEqual(site.hosted, ['x']);
  // What is in the memory of the leader is not read again.
  assert.deepEqual(described, []);
  await assert.rejects(pull(site, 'client', 'd'), LeaderOnly);
  reporter.close();
});

test('a pull that has ended before the leader counts it is counted', async () => {
  const site = startSite();
  site.site.leader = undefined;
  await pull(site, 'client', 'of a user');
  const [sent] = site.messages.flat();
  await site.createLeader()([{ kind: 'served', client: 'c', token: 'ended', what: 'done' }]);
  assert.equal(sent, undefined);
  assert.deepEqual([site.described, site.counted], [['ended'], ['ended']]);
  site.reporter.close();
});

test('one pull through two replicas ends half a minute after it began', async () => {
  for (const token of ['a', 'of a user']) {
    const site = startSite();
    const { clock, counted } = site;
    const other = { reporter: site.createReplica() };
    const at = async (ms: number, replica: Replica) => {
      clock.now = 1 + ms;
      await pull(replica, 'client', token);
      await replica.reporter.flush();
    };
    await at(0, site);
    await at(29_000, other);
    assert.equal(counted.length, 1, token);
    await at(31_000, other);
    assert.equal(counted.length, 2, token);
    site.reporter.close();
    other.reporter.close();
  }
});

test('the minute without a leader begins when it is missed, also at a replica that had nothing to ask', async () => {
  const site = startSite();
  const { clock, reporter, messages } = site;
  site.site.leader = undefined;
  reporter.greet();
  await assert.rejects(pull(site, 'client', 'a'), LeaderOnly);
  site.site.leader = site.createLeader();
  clock.now += 1000;
  reporter.greet();
  await new Promise(setImmediate);
  assert.deepEqual(messages.at(-1), []);
  const greeted = messages.length;
  clock.now += 600_000;
  reporter.greet();
  assert.equal(messages.length, greeted);
  site.site.leader = undefined;
  await pull(site, 'client', 'a');
  clock.now += 61_000;
  await assert.rejects(pull(site, 'client', 'a'), LeaderOnly);
  reporter.close();
});

test('pulls that arrive while a message is on its way share the next one', async () => {
  const site = startSite();
  await Promise.all(Array.from({ length: 20 }, (_, n) => pull(site, `client ${n}`, 'a')));
  assert.deepEqual(
    site.messages.map(({ length }) => length),
    [1, 19],
  );
  site.reporter.close();
});

test('pulls that follow one another gather for a moment, and one alone does not wait', async () => {
  const site = startSite();
  await pull(site, 'client', 'a');
  const second = pull(site, 'client 2', 'a');
  await new Promise(setImmediate);
  const third = pull(site, 'client 3', 'a');
  await Promise.all([second, third]);
  site.clock.now += 1000;
  const fourth = pull(site, 'client 4', 'a');
  const lengths = [1, 2, 1];
  assert.deepEqual(
    site.messages.map(({ length }) => length),
    lengths,
  );
  await fourth;
  site.reporter.close();
});

test('a leader that takes no pulls is not asked again for each of them', async () => {
  const site = startSite();
  const { clock, counted, messages, reporter } = site;
  site.site.leader = undefined;
  for (let n = 0; n < 2000; n += 1) await pull(site, `client ${n}`, 'of a user');
  assert.ok(messages.length < 5, `${messages.length} messages`);
  site.site.leader = site.createLeader();
  clock.now += 1000;
  await reporter.flush();
  assert.equal(counted.length, 2000);
  reporter.close();
});

test('without a leader, a replica limits by itself for a minute, and the next leader counts', async () => {
  const site = startSite();
  const { clock, counted, hosted, reporter } = site;
  // One that has not reached a leader does not: it may not take pulls.
  site.site.leader = undefined;
  await assert.rejects(pull(site, 'client', 'early'), LeaderOnly);
  site.site.leader = site.createLeader();
  clock.now += 1000;
  await pull(site, 'client', 'a');
  site.site.leader = undefined;
  clock.now += 59_000;
  for (const token of ['b', 'c']) await pull(site, 'client', token);
  await assert.rejects(pull(site, 'client', 'd'), { kind: 'too-many-requests' });
  reporter.countHosted(hostedPull);
  clock.now += 59_000;
  await pull(site, 'new client', 'b');
  clock.now += 2000;
  await assert.rejects(pull(site, 'new client', 'e'), LeaderOnly);
  await reporter.flush();
  assert.deepEqual(counted, ['a']);
  site.site.leader = site.createLeader();
  await reporter.flush();
  assert.deepEqual(counted, ['a', 'b', 'c', 'b']);
  assert.deepEqual(hosted, ['x']);
  clock.now += 1000;
  await assert.rejects(pull(site, 'client', 'd'), LeaderOnly);
  reporter.close();
});

test('pulls that wait for a leader are bounded', async () => {
  const site = startSite();
  site.site.leader = undefined;
  const sent = { client: '', isHead: true, repository: 'x', reference: 'y', digest: 'z' as never };
  for (let n = 0; site.reporter.hasRoom(); n += 1) {
    assert.ok(n < 100_000);
    site.reporter.countHosted(sent);
  }
  site.site.leader = site.createLeader();
  await site.reporter.flush();
  await site.reporter.flush();
  assert.ok(site.reporter.hasRoom());
  site.reporter.close();
});

test('a message of something else is refused', () => {
  for (const sent of [{}, [{ kind: 'served' }], [{ kind: 'other', client: '' }]]) {
    assert.throws(() => readReportedPulls(Buffer.from(JSON.stringify(sent))));
  }
  const sent = (count: number, repository: string) =>
    Array.from({ length: count }, () => ({
      ...{ kind: 'hosted', client: '', isHead: true, repository, reference: '', digest: '' },
    }));
  const read = (count: number, repository = '') =>
    readReportedPulls(Buffer.from(JSON.stringify(sent(count, repository))));
  assert.equal(read(500).length, 500);
  assert.throws(() => read(501));
  assert.equal(read(1, 'x'.repeat(1024)).length, 1);
  assert.throws(() => read(1, 'x'.repeat(1025)));
  assert.throws(() => readPullReplies(Buffer.from('[{"isAdmitted":true}]'), 2));
});

const done = (token: string): ReportedPull => ({ kind: 'served', client: '', token, what: 'done' });

test('a leader that takes none of a message gets no further ones at once', async () => {
  const sent: number[] = [];
  const send = async (pulls: readonly ReportedPull[]) => {
    sent.push(pulls.length);
    return pulls.map(() => ({ isAdmitted: false, isUnknown: true, sentAt: 1 }));
  };
  const gathered = createGatheredPulls(send, () => 1);
  for (let at = 0; at < 5000; at += 1) gathered.add(done(String(at)));
  await gathered.flush();
  assert.ok(sent.length <= 2, `${sent}`);
  gathered.close();
});

test('a pull that the leader can never look up is sent a number of times, and others once', async () => {
  const counts = new Map<string, number>();
  const send = async (pulls: readonly ReportedPull[]) =>
    pulls.map(pull => {
      const token = pull.kind === 'served' ? pull.token : '';
      counts.set(token, (counts.get(token) ?? 0) + 1);
      return { isAdmitted: true, isUnknown: token === 'unreadable', sentAt: 1 };
    });
  const gathered = createGatheredPulls(send, () => 1);
  gathered.add(done('unreadable'));
  for (let round = 0; round < 150; round += 1) {
    gathered.add(done(`good ${round}`));
    await gathered.flush();
  }
  gathered.close();
  assert.equal(counts.get('unreadable'), 100);
  assert.equal(counts.get('good 0'), 1);
});

test('an unexpected error of the leader loses no pull', async () => {
  const take = createTakePulls({
    tokens: {
      get: () => Promise.reject(new Error('of the database')),
      describe: () => Promise.reject(new Error('of the database')),
    },
    meter: {} as never,
    countHosted() {},
    async requireRight() {},
  });
  assert.deepEqual(await take([done('one')]), [{ isAdmitted: false, isUnknown: true }]);
});

test('a pull is sent when its time has come, also after others, and at once after the end', async ({
  mock,
}) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const sent: number[] = [];
  const send = async (pulls: readonly ReportedPull[]) => {
    sent.push(pulls.length);
    return pulls.map(() => ({ isAdmitted: true, sentAt: 1 }));
  };
  const gathered = createGatheredPulls(send, () => 1);
  gathered.add(done('a'));
  mock.timers.tick(100);
  gathered.add(done('b'), { withinMs: 50 });
  gathered.add(done('c'));
  mock.timers.tick(49);
  assert.deepEqual(sent, []);
  mock.timers.tick(1);
  assert.deepEqual(sent, [3]);
  await gathered.flush();
  gathered.close();
  gathered.add(done('d'));
  await gathered.flush();
  assert.deepEqual(sent, [3, 1]);
});
