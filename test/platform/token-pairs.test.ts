import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createTokenPairs } from '../../src/platform/grants/token-pairs.ts';
import type { Grant } from '../../src/platform/workflow-platform.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createTokenPairStore } from '../../src/storage/rows/people/platform-rows.ts';
import { createSecretBox } from '../../src/storage/rows/secret-box.ts';

const grant: Grant = { endpoint: '', accessToken: 'access-1', refreshToken: 'refresh-1' };
const own = { accessToken: 'access-1', refreshToken: 'refresh-1' };
const renewed = { accessToken: 'access-2', refreshToken: 'refresh-2' };
const key = Buffer.alloc(32, 1).toString('base64url');
const otherKey = Buffer.alloc(32, 2).toString('base64url');
const day = 24 * 3_600_000;

function makePairs(boxKey = 1) {
  const database = openDatabase(':memory:');
  const store = createTokenPairStore(database);
  const clock = { now: 0 };
  const pairsWith = (number: number) =>
    createTokenPairs({
      store,
      box: createSecretBox(Buffer.alloc(32, number)),
      now: () => clock.now,
      keptMs: 30 * day,
    });
  return { database, store, clock, pairs: pairsWith(boxKey), pairsWith };
}

test('a refresh runs once for all waiting callers, and all get the new pair', async () => {
  const { pairs } = makePairs();
  const spent: string[] = [];
  const response = Promise.withResolvers<typeof renewed>();
  const refresh = (token: string) => {
    spent.push(token);
    return response.promise;
  };
  const waiting = Array.from({ length: 50 }, () => pairs.renew(key, grant, own, refresh));
  response.resolve(renewed);
  for (const pair of await Promise.all(waiting)) assert.deepEqual(pair, renewed);
  assert.deepEqual(spent, ['refresh-1']);
  // A caller with the refused token needs no further refresh.
  assert.deepEqual(await pairs.renew(key, grant, own, refresh), renewed);
  assert.equal(spent.length, 1);
});

test('the newest pair is kept, and a request with the old tokens does not restore them', async () => {
  const { pairs, pairsWith } = makePairs();
  const spent: string[] = [];
  const refreshTo = (pair: typeof renewed) => async (token: string) => {
    spent.push(token);
    return pair;
  };
  await pairs.renew(key, grant, own, refreshTo(renewed));
  const third = { accessToken: 'access-3', refreshToken: 'refresh-3' };
  await pairs.renew(key, grant, renewed, refreshTo(third));
  assert.deepEqual(spent, ['refresh-1', 'refresh-2']);
  assert.deepEqual(await pairs.current(key, grant), third);
  assert.deepEqual(await pairsWith(1).current(key, grant), third, 'after a restart');
});

test('renewed tokens are for their own grant only', async () => {
  const { pairs } = makePairs();
  await pairs.renew(key, grant, own, async () => renewed);
  assert.deepEqual(await pairs.current(otherKey, grant), own);
  const withoutRefresh = { endpoint: '', accessToken: 'access-1' };
  assert.equal((await pairs.current(key, withoutRefresh)).accessToken, 'access-1');
});

test('stored pairs cannot be read without the key, and another key discards them', async () => {
  const { database, pairs, pairsWith } = makePairs();
  await pairs.renew(key, grant, own, async () => renewed);
  const bytes = database.serialize().toString('latin1');
  for (const secret of ['access-1', 'access-2', 'refresh-1', 'refresh-2']) {
    assert.equal(bytes.includes(secret), false, secret);
  }
  assert.deepEqual(await pairsWith(2).current(key, grant), own);
});

test('a refused refresh drops the pair, a failed one does not', async () => {
  const { pairs, store } = makePairs();
  await pairs.renew(key, grant, own, async () => renewed);
  const fail = (kind: 'denied' | 'unavailable') =>
    pairs.renew(key, grant, renewed, async () => {
      throw new Fault(kind, kind);
    });
  await assert.rejects(fail('unavailable'), { kind: 'unavailable' });
  assert.notEqual(await store.find(key), undefined);
  await assert.rejects(fail('denied'), { kind: 'denied' });
  assert.equal(await store.find(key), undefined);
});

test('a pair expires thirty days after its last renewal', async () => {
  const { clock, pairs } = makePairs();
  await pairs.renew(key, grant, own, async () => renewed);
  clock.now = 20 * day;
  await pairs.renew(key, grant, renewed, async () => ({ ...renewed, accessToken: 'access-3' }));
  clock.now = 50 * day;
  assert.equal(await pairs.purge(), 0);
  clock.now = 50 * day + 1;
  assert.equal(await pairs.purge(), 1);
  assert.deepEqual(await pairs.current(key, grant), own);
});
