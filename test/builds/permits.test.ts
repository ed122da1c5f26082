import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { createPermits } from '../../src/builds/build-limits.ts';
import type { Permit } from '../../src/foundation/semaphore.ts';
import { shared } from './build-bench.ts';

const never = new AbortController().signal;
const user = (owner: string) => ({ owner, isTrusted: true });

test('a caller who wants one permit does not wait for a caller who wants fifty', async () => {
  const permits = createPermits(shared(2));
  const served: string[] = [];
  const held: Permit[] = [];
  const want = (owner: string) =>
    permits.take(user(owner), never).then(permit => {
      served.push(owner);
      held.push(permit);
    });
  for (let count = 0; count < 50; count += 1) void want('many');
  await turn();
  void want('one');
  void want('two');
  void want('two');
  assert.deepEqual(served, ['many', 'many']);
  for (let count = 0; count < 6; count += 1) {
    held.shift()?.[Symbol.dispose]();
    await turn();
  }
  // Each free permit goes to the owner with the fewest, and in turn between equals.
  assert.deepEqual(served.slice(2), ['one', 'two', 'many', 'two', 'many', 'many']);
});

test('owners with many builds get equal shares', async () => {
  const permits = createPermits(shared(1));
  const served: string[] = [];
  let current: Permit = await permits.take(user('first'), never);
  for (const owner of ['a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'c']) {
    void permits.take(user(owner), never).then(permit => {
      served.push(owner);
      current = permit;
    });
  }
  for (let count = 0; count < 9; count += 1) {
    current[Symbol.dispose]();
    await turn();
  }
  assert.equal(served.join(''), 'abcabcabc');
});

test('a caller who leaves the queue is not served, and the permit is not lost', async () => {
  const permits = createPermits(shared(1));
  const first = await permits.take(user('a'), never);
  const leaving = new AbortController();
  const left = permits.take(user('b'), leaving.signal);
  const next = permits.take(user('c'), never);
  leaving.abort(new Error('gone'));
  await assert.rejects(left, /gone/);
  await assert.rejects(permits.take(user('d'), leaving.signal), /gone/);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  const second = await next;
  const third = permits.take(user('e'), never);
  assert.equal(await Promise.race([third, turn('waiting')]), 'waiting', 'given back once only');
  second[Symbol.dispose]();
  await third;
});

test('permits never exceed the limit, and all callers are served', async () => {
  const action = fc.record({
    owner: fc.constantFrom('a', 'b', 'c'),
    isTrusted: fc.boolean(),
    leaves: fc.boolean(),
    gives: fc.nat(3),
  });
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 3 }), fc.array(action), async (count, actions) => {
      const permits = createPermits(shared(count));
      const held: Permit[] = [];
      let [asked, served, gone] = [0, 0, 0];
      for (const { owner, isTrusted, leaves, gives } of actions) {
        const leaving = new AbortController();
        asked += 1;
        permits.take({ owner, isTrusted }, leaving.signal).then(
          permit => {
            served += 1;
            held.push(permit);
          },
          () => {
            gone += 1;
          },
        );
        if (leaves) leaving.abort();
        await turn();
        assert.ok(held.length <= count);
        for (const permit of held.splice(0, gives)) permit[Symbol.dispose]();
        await turn();
      }
      while (held.length > 0) {
        held.pop()?.[Symbol.dispose]();
        await turn();
        assert.ok(held.length <= count);
      }
      assert.equal(served + gone, asked);
      assert.ok(gone <= actions.filter(({ leaves }) => leaves).length);
    }),
    { numRuns: 50 },
  );
});
