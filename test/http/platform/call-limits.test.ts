import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../../src/foundation/fault.ts';
import { callRates, createCallLimits } from '../../../src/http/platform/platform-routes.ts';

test('20 calls a second and 72,000 an hour, for each token', () => {
  assert.deepEqual(callRates.map(({ count, seconds }) => `${count}/${seconds}`).sort(), [
    '20/1',
    '72000/3600',
  ]);
  const clock = { now: 1 };
  const limits = createCallLimits(callRates, () => clock.now);
  for (let call = 0; call < 20; call += 1) limits.take(1);
  assert.throws(() => limits.take(1), isTooMany(/20 calls with one access token per second/));
  limits.take(2);
  clock.now += 999;
  assert.throws(() => limits.take(1), isTooMany(/per second/));
  clock.now += 1;
  limits.take(1);
});

test('either limit refuses alone, and refused calls count for neither', () => {
  const clock = { now: 1 };
  const rates = [
    { count: 3, seconds: 3600 },
    { count: 2, seconds: 1 },
  ];
  const limits = createCallLimits(rates, () => clock.now);
  limits.take(1);
  limits.take(1);
  for (let call = 0; call < 10; call += 1) {
    assert.throws(() => limits.take(1), isTooMany(/2 calls .* per second/));
  }
  clock.now += 1000;
  limits.take(1);
  assert.throws(
    () => limits.take(1),
    (error: unknown) => {
      assert.ok(
        isTooMany(/3 calls .* per hour is reached: try again in \d+ s, or leave more time/)(error),
      );
      const wait = (error as Fault).retryAfterSeconds ?? 0;
      assert.ok(wait > 3598 && wait <= 3599, String(wait));
      return true;
    },
  );
});

function isTooMany(message: RegExp) {
  return (error: unknown) =>
    error instanceof Fault && error.kind === 'too-many-requests' && message.test(error.message);
}
