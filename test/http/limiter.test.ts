import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { createLimiter, limitHeaders } from '../../src/http/limits/limiter.ts';
import { rate as configuredRate } from '../../src/server/config/units.ts';

const rate = fc.record({
  count: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 65, max: 90 })),
  seconds: fc.constantFrom(1, 60, 3600, 86_400),
});

test("no span of the limit's time has more events than the count", () => {
  fc.assert(
    fc.property(rate, fc.array(fc.nat(5000), { maxLength: 200 }), (limit, pauses) => {
      let now = 1_000_000;
      const limiter = createLimiter('events', () => now);
      const taken: number[] = [];
      for (const pause of pauses) {
        now += pause;
        try {
          const { remaining } = limiter.take('key', limit);
          taken.push(now);
          assert.ok(remaining >= 0 && remaining < limit.count);
        } catch (error) {
          assert.ok(error instanceof Fault && error.status === 429);
        }
      }
      for (const [from, start] of taken.entries()) {
        const next = taken[from + limit.count];
        assert.ok(next === undefined || next - start >= limit.seconds * 1000);
      }
    }),
  );
});

test('the whole allowance is available at the beginning, and again after the time', () => {
  fc.assert(
    fc.property(rate, limit => {
      let now = 0;
      const limiter = createLimiter('events', () => now);
      for (let round = 0; round < 2; round += 1) {
        for (let left = limit.count; left > 0; left -= 1) {
          limiter.check('key', limit);
          assert.equal(limiter.take('key', limit).remaining, left - 1);
          assert.equal(limiter.peek('key', limit).remaining, left - 1);
        }
        assert.throws(() => limiter.check('key', limit), Fault);
        assert.throws(() => limiter.take('key', limit), Fault);
        now += limit.seconds * 1000;
      }
    }),
  );
});

test('a caller who waits as long as Retry-After is let through, a caller who does not is refused', () => {
  fc.assert(
    fc.property(rate, limit => {
      let now = 0;
      const limiter = createLimiter('events', () => now);
      for (let left = limit.count; left > 0; left -= 1) limiter.take('key', limit);
      let wait = 0;
      try {
        limiter.take('key', limit);
      } catch (error) {
        assert.ok(error instanceof Fault && error.retryAfterSeconds !== undefined);
        wait = error.retryAfterSeconds;
        assert.equal(error.headers['ratelimit-remaining'], '0');
        assert.equal(error.headers['ratelimit-reset'], String(Math.ceil(wait)));
      }
      assert.ok(wait > 0);
      now = wait * 1000 * 0.99;
      assert.throws(() => limiter.take('key', limit), Fault);
      now = Math.ceil(wait * 1000);
      limiter.take('key', limit);
    }),
  );
});

test('25 a day is 25 in any 24 hours, however they are spread', () => {
  let now = 0;
  const limiter = createLimiter('pulls', () => now);
  const limit = { count: 25, seconds: 86_400 };
  const hour = 3_600_000;
  // One each hour is never too many; the rest of the day is free for 25 - 24.
  for (let count = 0; count < 24; count += 1, now += hour) limiter.take('key', limit);
  assert.equal(limiter.peek('key', limit).remaining, 2);
  limiter.take('key', limit);
  limiter.take('key', limit);
  const { remaining, resetSeconds } = limiter.peek('key', limit);
  assert.deepEqual([remaining, resetSeconds], [0, 3600]);
});

test('many events cost little memory and time, and are all counted', () => {
  let now = 0;
  const limiter = createLimiter('calls', () => now);
  const limit = { count: 72_000, seconds: 3600 };
  for (; now < 3_600_000; now += 50) limiter.take('key', limit);
  assert.throws(() => {
    for (let more = 0; more < 1300; more += 1) limiter.take('key', limit);
  }, /limit of 72000 calls per hour/);
});

test('keys are independent, and the message has a remedy', () => {
  const limiter = createLimiter('pulls', () => 0);
  const limit = { count: 1, seconds: 3600 };
  limiter.take('one', limit);
  limiter.take('two', limit);
  assert.throws(
    () => limiter.take('one', limit),
    /limit of 1 pulls per hour is reached: try again in 3600 s, or ask the operator/,
  );
  assert.deepEqual(limitHeaders(limiter.peek('one', limit)), {
    'ratelimit-limit': '1',
    'ratelimit-remaining': '0',
    'ratelimit-reset': '3600',
  });
});

test('returned events can be taken again, and never more than there were', () => {
  let now = 0;
  const limiter = createLimiter('events', () => now);
  const rate = { count: 2, seconds: 60 };
  limiter.giveBack('never taken', rate);
  assert.equal(limiter.peek('never taken', rate).remaining, 2);
  limiter.take('one', rate);
  limiter.take('one', rate);
  assert.throws(() => limiter.take('one', rate), { kind: 'too-many-requests' });
  limiter.giveBack('one', rate);
  assert.equal(limiter.take('one', rate).remaining, 0);
  now = 3_600_000;
  limiter.giveBack('one', rate);
  limiter.giveBack('one', rate);
  assert.equal(limiter.peek('one', rate).remaining, 2);
});

test('a rate of 0 refuses every event, however it is written and however long the caller waits', () => {
  let now = 0;
  const limiter = createLimiter('events', () => now);
  for (const text of ['0/hour', '0/second', '0', 0]) {
    const none = configuredRate.parse(text);
    assert.ok(none);
    assert.equal(none.count, 0, String(text));
    for (now = 0; now < 1e9; now += 1e8) {
      assert.throws(() => limiter.take(String(text), none), {
        ...{ kind: 'denied', message: /^This server allows no events to this caller/ },
      });
    }
  }
});

test('an event that expires between two looks at the clock leaves no negative time', () => {
  let now = 0;
  const limiter = createLimiter('pulls', () => {
    now += 600;
    return now;
  });
  const rate = { count: 2, seconds: 1 };
  limiter.note('key', rate);
  assert.ok(limiter.peek('key', rate).resetSeconds >= 0);
});
