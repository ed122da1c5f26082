/** How long a confirmed right to an image counts where nobody asks for the image. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createKeptRights } from '../../src/pull/kept-rights.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';

const request = (token: string) => ({ token }) as unknown as ContainerRequest;

test('a right is checked once for all who ask at once, until it ends, and early', async () => {
  const state = { lifeMs: 3_600_000, looks: 0, failure: undefined as Error | undefined };
  const require = createKeptRights(async () => {
    state.looks += 1;
    await new Promise(setImmediate);
    if (state.failure) throw state.failure;
    return { access: {} as never, until: performance.now() + state.lifeMs };
  });
  await Promise.all([require(request('a')), require(request('a'))]);
  await require(request('a'));
  assert.equal(state.looks, 1);
  state.lifeMs = 0;
  await require(request('b'));
  await require(request('b'));
  assert.equal(state.looks, 3);
  state.failure = new Fault('denied', 'it has ended');
  await assert.rejects(require(request('b')), { kind: 'denied' });
  // It is not kept.
  state.failure = undefined;
  await require(request('b'));
  assert.equal(state.looks, 5);
});

test('a right that has ended is noticed by an early check', async () => {
  const state = { lifeMs: 100, failure: undefined as Error | undefined };
  let looks = 0;
  const require = createKeptRights(async () => {
    looks += 1;
    if (state.failure) throw state.failure;
    return { access: {} as never, until: performance.now() + state.lifeMs };
  });
  await require(request('a'));
  state.failure = new Fault('denied', 'it has ended');
  const ends = performance.now() + 60;
  while (performance.now() < ends) await new Promise(setImmediate);
  await require(request('a')).catch(() => {});
  await new Promise(setImmediate);
  assert.equal(looks, 2);
  await assert.rejects(require(request('a')), { kind: 'denied' });
});

test('a check gets the last result when its time is over, but not one that an early check has ended', async t => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const given: unknown[] = [];
  let isRefused = false;
  const require = createKeptRights(async (_request, last?: { until: number; looks: number }) => {
    given.push(last?.looks);
    if (isRefused) throw new Fault('denied', 'it has ended');
    return { until: now + 100, looks: given.length };
  });
  await require(request('a'));
  now = 100;
  await require(request('a'));
  assert.deepEqual(given, [undefined, 1]);
  isRefused = true;
  now = 160;
  assert.equal((await require(request('a'))).looks, 2);
  await new Promise(setImmediate);
  await assert.rejects(require(request('a')), { kind: 'denied' });
  assert.deepEqual(given.slice(2), [2, undefined]);
});
