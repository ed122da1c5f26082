import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createCallLine, type Window } from '../../src/platform/calls.ts';
import { isFault } from './platform-world.ts';

/** A line whose clock goes on only as far as its calls wait. */
function lineOf(windows: readonly Window[], longestWaitMs = Number.POSITIVE_INFINITY) {
  const clock = { now: 0 };
  const made: number[] = [];
  const line = createCallLine({
    windows,
    longestWaitMs,
    now: () => clock.now,
    pause: async ms => {
      clock.now += ms;
    },
  });
  /** Makes a call that takes so long, and returns how long it waited. */
  const enter = async (token = 'token', takesMs = 0) => {
    const came = clock.now;
    const leave = await line.enter(token);
    made.push(clock.now);
    const waited = clock.now - came;
    clock.now += takesMs;
    leave();
    return waited;
  };
  return { clock, made, enter };
}

test('no span of time has more calls than the limit, and nobody overtakes', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 120 }),
      async gaps => {
        const windows = [
          { count: 5, ms: 1000 },
          { count: 12, ms: 6000 },
        ];
        const { clock, made, enter } = lineOf(windows);
        for (const gap of gaps) {
          clock.now += gap;
          await enter();
        }
        assert.deepEqual(
          made,
          [...made].sort((one, other) => one - other),
        );
        for (const { count, ms } of windows) {
          for (const [at, start] of made.entries()) {
            const next = made[at + count];
            assert.ok(
              next === undefined || next - start >= ms,
              `${count + 1} calls in ${next} - ${start}`,
            );
          }
        }
      },
    ),
  );
});

test('nobody waits without need', async () => {
  const { clock, enter } = lineOf([{ count: 20, ms: 1000 }]);
  for (let call = 0; call < 20; call += 1) assert.equal(await enter(), 0);
  assert.equal(await enter(), 1000);
  assert.equal(await enter('another token'), 0);
  clock.now = 2000;
  assert.equal(await enter(), 0);
});

test('an hour at full speed stays within the limit of the hour', async () => {
  const { made, enter } = lineOf([
    { count: 20, ms: 1000 },
    { count: 1000, ms: 3_600_000 },
  ]);
  for (let call = 0; call < 1001; call += 1) await enter();
  assert.equal(made[999], 49_000);
  assert.equal(made[1000], 3_600_000);
});

test('a caller who would wait too long gets the time to try again', async () => {
  const forever = new Promise<void>(() => {});
  const line = createCallLine({
    windows: [{ count: 2, ms: 10_000 }],
    longestWaitMs: 15_000,
    now: () => 0,
    pause: () => forever,
  });
  for (let call = 0; call < 2; call += 1) (await line.enter('token'))();
  for (let call = 0; call < 2; call += 1) void line.enter('token');
  await assert.rejects(
    line.enter('token'),
    error =>
      isFault('too-many-requests', /in 20 s/)(error) &&
      (error as { retryAfterSeconds?: number }).retryAfterSeconds === 20,
  );
});

test('a call counts until it is answered, because it may arrive that late', async () => {
  const { made, enter } = lineOf([{ count: 2, ms: 1000 }]);
  await enter('token', 700);
  await enter('token', 10);
  assert.equal(await enter('token', 0), 990);
  assert.deepEqual(made, [0, 700, 1700]);
  const line = createCallLine({ windows: [{ count: 1, ms: 1 }], longestWaitMs: 1000 });
  const leave = await line.enter('token');
  let isIn = false;
  const next = line.enter('token').then(() => {
    isIn = true;
  });
  await new Promise(resolve => setTimeout(resolve, 20));
  assert.equal(isIn, false, 'the call before it has no answer yet');
  leave();
  await next;
});

test('a caller who leaves the queue does not delay others', async () => {
  const line = createCallLine({ windows: [{ count: 1, ms: 60_000 }], longestWaitMs: 120_000 });
  await line.enter('token');
  const leaving = new AbortController();
  const waiting = line.enter('token', leaving.signal);
  leaving.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
});
