import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { FairQueue } from '../../src/images/listing/fair-queue.ts';

const refusal = () => new Fault('unavailable', 'full', { phase: 'limit' });

test('askers take turns, whoever came first with however much', async () => {
  const queue = new FairQueue({ atOnce: 1, mostWaiting: 100, mostOfOne: 50, refusal });
  const order: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = queue.run('first', () => gate.promise);
  const work = (name: string) => queue.run(name.slice(0, 1), async () => void order.push(name));
  const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2'].map(work);
  assert.equal(queue.waiting, 7);
  gate.resolve();
  await Promise.all([first, ...all]);
  assert.deepEqual(order, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
  assert.equal(queue.waiting, 0);
});

test('one asker cannot take the places of others, and all of them have an end', async () => {
  const queue = new FairQueue({ atOnce: 2, mostWaiting: 5, mostOfOne: 3, refusal });
  const gate = Promise.withResolvers<void>();
  const hold = (asker: string) => queue.run(asker, () => gate.promise);
  const many = Array.from({ length: 10 }, () => hold('a'));
  const others = [hold('b'), hold('b'), hold('c')];
  const ends = Promise.allSettled([...many, ...others]);
  assert.equal(queue.waiting, 5);
  gate.resolve();
  const results = (await ends).map(({ status }) => status === 'fulfilled');
  assert.deepEqual(results.slice(0, 10), [...Array(5).fill(true), ...Array(5).fill(false)]);
  assert.deepEqual(results.slice(10), [true, true, false]);
  await assert.rejects(
    queue.run('a', async () => {
      throw new Error('of the work');
    }),
    /of the work/,
  );
  assert.equal(await queue.run('a', async () => 'again'), 'again');
});
