import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createCallLine, type Window } from '../../src/platform/call-line.ts';
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
      waited = ms;
    },
  });
  let waited = 0;
  const enter = async (token = 'token') => {
    waited = 0;
    await line.enter(token);
    made.push(clock.now + waited);
    return waited;
  };
  return { clock, made, enter };
}

test('no span of time sees more calls than it may, and nobody overtakes', async () => {
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

test('nobody waits who need not', async () => {
  const { clock, enter } = lineOf([{ count: 20, ms: 1000 }]);
  for (let call = 0; call < 20; call += 1) assert.equal(await enter(), 0);
  assert.equal(await enter(), 1000);
  assert.equal(await enter('another token'), 0);
  clock.now = 2000;
  assert.equal(await enter(), 0);
});

test('an hour at full speed is held to the limit of the hour', async () => {
  const { made, enter } = lineOf([
    { count: 20, ms: 1000 },
    { count: 1000, ms: 3_600_000 },
  ]);
  for (let call = 0; call < 1001; call += 1) await enter();
  assert.equal(made[999], 49_000);
  assert.equal(made[1000], 3_600_000);
});

test('who would wait longer than anybody waits is told when to come again', async () => {
  const { enter } = lineOf([{ count: 2, ms: 10_000 }], 15_000);
  for (let call = 0; call < 4; call += 1) await enter();
  await assert.rejects(
    enter(),
    error =>
      isFault('too-many-requests', /in 20 s/)(error) &&
      (error as { retryAfterSeconds?: number }).retryAfterSeconds === 20,
  );
});

test('who leaves the line need not be waited for to the end', async () => {
  const line = createCallLine({ windows: [{ count: 1, ms: 60_000 }], longestWaitMs: 120_000 });
  await line.enter('token');
  const leaving = new AbortController();
  const waiting = line.enter('token', leaving.signal);
  leaving.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
});
