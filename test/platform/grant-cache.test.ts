import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGrantCache } from '../../src/platform/grants/grant-cache.ts';

/** Loads numbers, one more each time. */
function counting() {
  let loads = 0;
  return async () => {
    loads += 1;
    return loads;
  };
}

test('an answer is cached for its lifetime and no longer', async () => {
  let now = 0;
  const cache = createGrantCache(() => now);
  const load = counting();
  assert.equal(await cache.get('a', 'user', 1000, load), 1);
  now = 999;
  assert.equal(await cache.get('a', 'user', 1000, load), 1);
  now = 1000;
  assert.equal(await cache.get('a', 'user', 1000, load), 2);
});

test('identical simultaneous questions are asked once, those of other callers separately', async () => {
  const cache = createGrantCache();
  const load = counting();
  const responses = await Promise.all([
    cache.get('a', 'user', 1000, load),
    cache.get('a', 'user', 1000, load),
    cache.get('b', 'user', 1000, load),
    cache.get('a', 'keys', 1000, load),
  ]);
  assert.deepEqual(responses, [1, 1, 2, 3]);
});

test('a failure is not cached', async () => {
  const cache = createGrantCache();
  await assert.rejects(
    cache.get('a', 'user', 1000, () => Promise.reject(new Error('down'))),
    /down/,
  );
  assert.equal(await cache.get('a', 'user', 1000, async () => 5), 5);
});

test('an answer requested before its grant was forgotten is not cached', async () => {
  const cache = createGrantCache();
  const early = Promise.withResolvers<string>();
  const asked = cache.get('a', 'user', 1000, () => early.promise);
  const other = await cache.get('b', 'user', 1000, async () => 'other');
  cache.forget('a');
  const later = cache.get('a', 'user', 1000, async () => 'later');
  early.resolve('early');
  assert.equal(await asked, 'early');
  assert.equal(await later, 'later');
  assert.equal(await cache.get('a', 'user', 1000, async () => 'latest'), 'later');
  assert.equal(await cache.get('b', 'user', 1000, async () => 'again'), other);
});

test('one answer can be dropped alone', async () => {
  const cache = createGrantCache();
  const load = counting();
  await cache.get('a', 'user', 1000, load);
  cache.put('a', 'keys', 1000, 'denied');
  cache.drop('a', 'user');
  cache.drop('b', 'user');
  assert.equal(await cache.get('a', 'user', 1000, load), 2);
  assert.equal(await cache.get('a', 'keys', 1000, async () => 'asked'), 'denied');
});
