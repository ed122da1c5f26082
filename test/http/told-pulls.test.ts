/** Pulls that a replica answers, and the leader counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createLimiter } from '../../src/http/limits/limiter.ts';
import { createPullMeter } from '../../src/http/registry/pull-meter.ts';
import {
  createTakePulls,
  readToldPulls,
  readToldReplies,
  type ToldPull,
} from '../../src/http/registry/told-pulls.ts';
import { createPullCounter } from '../../src/pull/pull-counter.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import { LeaderOnly } from '../../src/server/replicas/reads/leader-only.ts';
import { createPullTeller } from '../../src/server/replicas/reads/pull-teller.ts';

const limit = 2;
const rate = { count: limit, seconds: 3600 };
const rates = { anonymous: rate, authenticated: undefined };
const request = (token: string, user?: string) =>
  ({
    token,
    isMounted: false,
    caller: { address: '', ...(user === undefined ? {} : { user }) },
  }) as unknown as ContainerRequest;

function startSite() {
  const clock = { now: 1 };
  const now = () => clock.now;
  const counted: string[] = [];
  const hosted: string[] = [];
  const get = async (token: string) => {
    if (token === 'ended') throw new Fault('not-found', 'ended');
    return request(token, token === 'of a user' ? 'ada' : undefined);
  };
  const createLeader = () =>
    createTakePulls({
      tokens: { get, describe: get },
      meter: createPullMeter({
        counter: createPullCounter(now),
        limiter: createLimiter('pulls', now),
        rates,
        usage: { add() {} } as never,
        record: ({ token }) => counted.push(token),
      }),
      countHosted: ({ repository }) => hosted.push(repository),
      async findImage({ token }) {
        if (token === 'without a right') throw new Fault('denied', 'no right');
      },
    });
  const messages: (readonly ToldPull[])[] = [];
  const site = { leader: createLeader() as ReturnType<typeof createLeader> | undefined };
  const teller = createPullTeller({
    rates,
    now,
    async send(pulls) {
      messages.push(pulls);
      const told = readToldPulls(Buffer.from(JSON.stringify(pulls)));
      const replies = await site.leader?.(told);
      return replies && readToldReplies(Buffer.from(JSON.stringify(replies)), pulls.length);
    },
  });
  return { clock, counted, hosted, messages, site, teller, createLeader };
}

const pull = async ({ teller }: ReturnType<typeof startSite>, client: string, token: string) => {
  const asked = request(token, token === 'of a user' ? 'ada' : undefined);
  if (!teller.meter.admit(client, asked)) await teller.meter.count(client, asked);
  return teller.meter.headers(client, asked)['ratelimit-remaining'];
};

test('the leader limits the pulls of a replica, and counts each once', async () => {
  const site = startSite();
  const { counted, messages, teller } = site;
  const remaining = await Promise.all(['a', 'b'].map(token => pull(site, 'client', token)));
  assert.deepEqual(remaining, ['1', '0']);
  // Further manifests of a pull ask nothing.
  const before = messages.length;
  assert.equal(await pull(site, 'client', 'a'), '1');
  assert.equal(messages.length, before);
  await assert.rejects(pull(site, 'client', 'c'), LeaderOnly);
  await assert.rejects(async () => teller.meter.look?.('client', request('c')), LeaderOnly);
  await assert.rejects(pull(site, 'other', 'ended'), LeaderOnly);
  assert.equal(await pull(site, 'client', 'of a user'), undefined);
  await teller.flush();
  assert.deepEqual(counted, ['a', 'b', 'of a user']);
  teller.close();
});

test('a request that is only looked at is not counted', async () => {
  const site = startSite();
  await site.teller.meter.look?.('client', request('a'));
  assert.deepEqual(site.counted, []);
  assert.equal(await pull(site, 'client', 'a'), '1');
  site.teller.close();
});

test('the leader says whether a right holds', async () => {
  const site = startSite();
  const { teller } = site;
  assert.equal(await teller.mayPull('a'), true);
  assert.equal(await teller.mayPull('ended'), false);
  assert.equal(await teller.mayPull('without a right'), false);
  site.site.leader = undefined;
  assert.equal(await teller.mayPull('a'), false);
  teller.close();
});

test('pulls that arrive while a message is on its way share the next one', async () => {
  const site = startSite();
  await Promise.all(Array.from({ length: 20 }, (_, n) => pull(site, `client ${n}`, 'a')));
  assert.deepEqual(
    site.messages.map(({ length }) => length),
    [1, 19],
  );
  site.teller.close();
});

test('a leader that takes no pulls is not asked again for each of them', async () => {
  const site = startSite();
  const { clock, counted, messages, teller } = site;
  site.site.leader = undefined;
  for (let n = 0; n < 2000; n += 1) await pull(site, `client ${n}`, 'of a user');
  assert.ok(messages.length < 5, `${messages.length} messages`);
  site.site.leader = site.createLeader();
  clock.now += 1000;
  await teller.flush();
  assert.equal(counted.length, 2000);
  teller.close();
});

test('without a leader, a replica limits by itself for a minute, and the next leader counts', async () => {
  const site = startSite();
  const { clock, counted, hosted, teller } = site;
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
  teller.countHosted({
    client: '',
    isHead: false,
    repository: 'x',
    reference: 'y',
    digest: 'z' as never,
  });
  clock.now += 2000;
  await assert.rejects(pull(site, 'new client', 'e'), LeaderOnly);
  await teller.flush();
  assert.deepEqual(counted, ['a']);
  site.site.leader = site.createLeader();
  await teller.flush();
  assert.deepEqual(counted, ['a', 'b', 'c']);
  assert.deepEqual(hosted, ['x']);
  clock.now += 1000;
  await assert.rejects(pull(site, 'client', 'd'), LeaderOnly);
  teller.close();
});

test('pulls that wait for a leader are bounded', async () => {
  const site = startSite();
  site.site.leader = undefined;
  const sent = { client: '', isHead: true, repository: 'x', reference: 'y', digest: 'z' as never };
  for (let n = 0; site.teller.hasRoom(); n += 1) {
    assert.ok(n < 100_000);
    site.teller.countHosted(sent);
  }
  site.site.leader = site.createLeader();
  await site.teller.flush();
  await site.teller.flush();
  assert.ok(site.teller.hasRoom());
  site.teller.close();
});

test('a message of something else is refused', () => {
  for (const told of [{}, [{ kind: 'served' }], [{ kind: 'other', client: '' }]]) {
    assert.throws(() => readToldPulls(Buffer.from(JSON.stringify(told))));
  }
  const told = (count: number, repository: string) =>
    Array.from({ length: count }, () => ({
      ...{ kind: 'hosted', client: '', isHead: true, repository, reference: '', digest: '' },
    }));
  const read = (count: number, repository = '') =>
    readToldPulls(Buffer.from(JSON.stringify(told(count, repository))));
  assert.equal(read(500).length, 500);
  assert.throws(() => read(501));
  assert.equal(read(1, 'x'.repeat(1024)).length, 1);
  assert.throws(() => read(1, 'x'.repeat(1025)));
  assert.throws(() => readToldReplies(Buffer.from('[{"isAdmitted":true}]'), 2));
});
