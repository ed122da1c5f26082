/** How long a confirmed right to an image counts where nobody asks for the image. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createKeptRights } from '../../src/pull/kept-rights.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import { eventually } from '../world/eventually.ts';

const request = (token: string) => ({ token }) as unknown as ContainerRequest;

test('a right is checked once for all who ask at once, until it ends, and early', async t => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const state = { looks: 0, failure: undefined as Error | undefined };
  const require = createKeptRights(async () => {
    state.looks += 1;
    await new Promise(setImmediate);
    if (state.failure) throw state.failure;
    return { access: {} as never, until: now + 100 };
  });
  await Promise.all([require(request('a')), require(request('a'))]);
  await require(request('a'));
  assert.equal(state.looks, 1);
  await require(request('b'));
  now = 100;
  await require(request('b'));
  assert.equal(state.looks, 3);
  now = 200;
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

test('a right that ends while its image is found is checked again', async t => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const given: unknown[] = [];
  let isRevoked = false;
  const require = createKeptRights(async (_request, last?: { until: number }) => {
    given.push(last);
    if (isRevoked) throw new Fault('denied', 'it has ended');
    const until = now + 100;
    // A build ends, and the right was revoked meanwhile.
    now += 5000;
    isRevoked = true;
    return { until };
  });
  const both = await Promise.allSettled([require(request('a')), require(request('a'))]);
  for (const { status } of both) assert.equal(status, 'rejected');
  assert.deepEqual(given[1], { until: 100 });
});

test('who joins a check that fails makes an own one', async () => {
  const begun: PromiseWithResolvers<void>[] = [];
  const require = createKeptRights(async () => {
    const check = Promise.withResolvers<void>();
    begun.push(check);
    await check.promise;
    return { until: Number.POSITIVE_INFINITY };
  });
  const first = require(request('a'));
  const second = require(request('a'));
  begun[0]?.reject(new Fault('unavailable', 'the build is still running'));
  await assert.rejects(first, { kind: 'unavailable' });
  await eventually('the second one waits by itself', () => begun.length === 2);
  begun[1]?.resolve();
  await second;
});
