/** Which limit a caller has, what work takes of it, and how failed logins count. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { runWithinLimit } from '../../src/http/api/within-limit.ts';
import {
  createLimiter,
  createLoginLimit,
  isFailedLogin,
  limitHeaders,
  rateFor,
} from '../../src/http/limits/limiter.ts';

const hourly = (count: number) => ({ count, seconds: 3600 });
const fault = (kind: ConstructorParameters<typeof Fault>[0]) =>
  new Fault(kind, 'it says no', { phase: 'build' });

test('a caller without a login shares the limit of a network, and a user has a separate one', () => {
  const rates = { anonymous: hourly(10), authenticated: hourly(20) };
  const [one, same, other] = ['2001:db8::1', '2001:db8::2', '192.0.2.1'].map(address =>
    rateFor(rates, {}, address),
  );
  assert.deepEqual([one?.key, one?.rate], ['anonymous 2001:db8:0:0::/64', rates.anonymous]);
  assert.equal(same?.key, one?.key);
  assert.equal(other?.key, 'anonymous 192.0.2.1');
  assert.deepEqual(rateFor(rates, { user: 'ada' }, '192.0.2.1'), {
    ...{ key: 'user ada', rate: rates.authenticated, advice: undefined },
  });
  assert.equal(rateFor({ ...rates, authenticated: undefined }, { user: 'ada' }, ''), undefined);
  assert.equal(rateFor({ ...rates, anonymous: undefined }, {}, ''), undefined);
});

test('a token is recommended where it raises the limit', () => {
  const advice = (
    anonymous: number,
    authenticated: { count: number; seconds: number } | undefined,
  ) => rateFor({ anonymous: hourly(anonymous), authenticated }, {}, '::1')?.advice;
  for (const higher of [undefined, hourly(11), { count: 1, seconds: 60 }]) {
    assert.match(String(advice(10, higher)), /^send a platform access token/);
  }
  for (const lower of [hourly(10), hourly(9), { count: 20, seconds: 86_400 }]) {
    assert.equal(advice(10, lower), undefined);
  }
});

test('work takes one event, which it returns when the service itself fails', async () => {
  const limiter = createLimiter('events', () => 0);
  const limit = { key: 'key', rate: hourly(2), advice: 'ask' };
  const sent: string[] = [];
  const run = (work: () => Promise<unknown>) =>
    runWithinLimit(
      limiter,
      limit,
      headers => void sent.push(String(headers['ratelimit-remaining'])),
      work,
    );
  for (const kind of ['internal', 'not-provided', 'storage-full', 'unavailable'] as const) {
    await assert.rejects(
      run(() => Promise.reject(fault(kind))),
      { kind },
    );
    assert.deepEqual(sent.splice(0), ['1', '2'], kind);
  }
  await assert.rejects(
    run(() => Promise.reject(new Error('of no fault'))),
    /of no fault/,
  );
  assert.deepEqual(sent.splice(0), ['1', '2']);
  await assert.rejects(
    run(() => Promise.reject(fault('denied'))),
    { kind: 'denied' },
  );
  assert.deepEqual(sent.splice(0), ['1']);
  assert.equal(await run(async () => 'done'), 'done');
  assert.deepEqual(sent.splice(0), ['0']);
  await assert.rejects(
    run(() => assert.fail('no event is left')),
    {
      ...{ kind: 'too-many-requests', message: /, or ask$/ },
    },
  );
  const open = await runWithinLimit(
    limiter,
    undefined,
    () => assert.fail(),
    async left => left,
  );
  assert.equal(open, undefined);
});

test('a limit with groups of events admits no more than one without', () => {
  let now = 0;
  const limiter = createLimiter('events', () => now);
  // 3200 events in 32 groups of 1 s each.
  const rate = { count: 3200, seconds: 32 };
  for (; now < 32_000; now += 10) limiter.take('key', rate);
  assert.equal(limiter.peek('key', rate).remaining, 0);
  // The events of the first second count until the last of them expires.
  now = 32_000 + 989;
  assert.equal(limiter.peek('key', rate).remaining, 0);
  assert.ok(Math.abs(limiter.peek('key', rate).resetSeconds - 0.001) < 1e-9);
  now = 32_000 + 990;
  assert.equal(limiter.peek('key', rate).remaining, 100);
  assert.equal(limiter.peek('key', rate).resetSeconds, 31);
});

test('events that are close together expire together', () => {
  let now = 0;
  const limiter = createLimiter('events', () => now);
  const rate = { count: 3200, seconds: 32 };
  limiter.take('key', rate);
  now = 999.5;
  limiter.take('key', rate);
  now = 1000;
  limiter.take('key', rate);
  now = 32_000.5;
  assert.equal(limiter.peek('key', rate).remaining, 3197);
  now = 32_999.5;
  assert.equal(limiter.peek('key', rate).remaining, 3199);
});

test('few events are exact, each one free again when its time has passed', () => {
  let now = 0;
  const limiter = createLimiter('events', () => now);
  const rate = { count: 32, seconds: 32 };
  for (; now < 32; now += 1) limiter.take('key', rate);
  now = 32_000;
  assert.equal(limiter.peek('key', rate).remaining, 1);
});

test('events beyond the limit make the caller wait longer', () => {
  let now = 0;
  const limiter = createLimiter('events', () => now);
  const rate = { count: 2, seconds: 10 };
  for (; now <= 4000; now += 1000) limiter.note('key', rate);
  now = 4000;
  assert.deepEqual(limiter.peek('key', rate), { limit: 2, remaining: 0, resetSeconds: 9 });
  assert.equal(limiter.peek('other', rate).resetSeconds, 0);
  assert.equal(limiter.peek('other', { count: 0, seconds: 60 }).resetSeconds, 60);
  limiter.note('other', rate);
  now += 1000;
  assert.equal(limiter.peek('other', { ...rate, count: 1 }).resetSeconds, 9);
});

test('one event of a group is returned, and the others still count', () => {
  const limiter = createLimiter('events', () => 0);
  const rate = { count: 100, seconds: 60 };
  for (let taken = 0; taken < 3; taken += 1) limiter.take('key', rate);
  for (const remaining of [98, 99, 100, 100]) {
    limiter.giveBack('key', rate);
    assert.equal(limiter.peek('key', rate).remaining, remaining);
  }
});

test('a limit says its time in the usual units, and a wait in whole seconds', () => {
  for (const [seconds, text] of [
    [1, 'second'],
    [60, 'minute'],
    [3600, 'hour'],
    [86_400, 'day'],
    [90, '90 s'],
  ] as const) {
    const limiter = createLimiter('events', () => 0);
    limiter.take('key', { count: 1, seconds });
    const message = new RegExp(`^The limit of 1 events per ${text} is reached: `);
    assert.throws(() => limiter.take('key', { count: 1, seconds }), { message });
  }
  const headers = limitHeaders({ limit: 5, remaining: 2, resetSeconds: 0.2 });
  assert.equal(headers['ratelimit-reset'], '1');
});

const request = (address: string, forwarded?: string) =>
  ({
    socket: { remoteAddress: address },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage;
const tooMany = { kind: 'too-many-requests' };

test('failed logins of one network count together, and end its logins for a while', () => {
  const limit = createLoginLimit(hourly(2), 0);
  limit.check(request('2001:db8::1'));
  limit.fail(request('2001:db8::1'));
  limit.check(request('2001:db8::1'));
  limit.fail(request('2001:db8::2'));
  for (const step of [limit.check, limit.begin]) {
    assert.throws(() => step(request('2001:db8::3')), {
      ...{ ...tooMany, limit: 'failed logins from one address' },
      message: /failed logins .*check the name, password or token/,
    });
    step(request('192.0.2.1'));
  }
  // Behind a proxy, the network is that of its client.
  const proxied = createLoginLimit(hourly(1), 1);
  proxied.fail(request('10.0.0.1', '192.0.2.1'));
  assert.throws(() => proxied.check(request('10.0.0.1', '192.0.2.1')), tooMany);
  proxied.check(request('10.0.0.1', '192.0.2.2'));
});

test('no more logins of one address run at once than may fail', () => {
  const limit = createLoginLimit(hourly(3), 0);
  const one = request('192.0.2.1');
  limit.fail(one);
  const ends = [limit.begin(one), limit.begin(one)];
  const refused = { ...tooMany, message: /^2 logins/, retryAfterSeconds: 1 };
  assert.throws(() => limit.begin(one), refused);
  limit.begin(request('192.0.2.2'));
  for (let twice = 0; twice < 2; twice += 1) ends[0]?.();
  const end = limit.begin(one);
  assert.throws(() => limit.begin(one), refused);
  end();
  ends[1]?.();
  limit.begin(one);
  limit.begin(one);
  assert.throws(() => limit.begin(one), refused);
});

test('without a limit, logins may fail', () => {
  const limit = createLoginLimit(undefined, 0);
  const one = request('192.0.2.1');
  for (let failed = 0; failed < 100; failed += 1) limit.fail(one);
  limit.check(one);
  limit.begin(one)();
});

test('a login fails by a wrong password, and not by a failure of the service', () => {
  for (const kind of ['denied', 'unauthorized'] as const) assert.ok(isFailedLogin(fault(kind)));
  for (const other of [fault('upstream'), fault('too-many-requests'), new Error('x')]) {
    assert.ok(!isFailedLogin(other));
  }
});
