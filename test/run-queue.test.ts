import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { RunQueue, workOnEach } from '../src/foundation/run-queue.ts';

test('all reads run in order, and never more at once than the limit', async () => {
  const queue = new RunQueue(3);
  let running = 0;
  let most = 0;
  const order: number[] = [];
  const reads = Array.from({ length: 5000 }, (_, at) =>
    queue.run(async () => {
      order.push(at);
      running += 1;
      most = Math.max(most, running);
      await null;
      running -= 1;
      if (at % 100 === 7) throw new Error('this read fails');
      return at;
    }),
  );
  const results = await Promise.allSettled(reads);
  assert.equal(most, 3);
  assert.deepEqual(
    order,
    [...order].sort((one, other) => one - other),
  );
  assert.equal(results.filter(({ status }) => status === 'rejected').length, 50);
  assert.equal(await queue.run(async () => 'after'), 'after');
});

suite('work on each item', () => {
  test('takes items only when their work may begin', async () => {
    let taken = 0;
    let done = 0;
    let most = 0;
    const items = function* () {
      for (; taken < 100; taken += 1) {
        most = Math.max(most, taken - done);
        yield taken;
      }
    };
    await workOnEach(items(), 8, async () => {
      await new Promise(resolve => setImmediate(resolve));
      done += 1;
    });
    assert.equal(done, 100);
    assert.equal(most, 7, 'one item is taken while seven are worked on');
  });

  test('reports a failure that comes while the next item is awaited', async () => {
    const failed = Promise.withResolvers<void>();
    const begun: string[] = [];
    const items = async function* () {
      yield 'bad';
      await failed.promise;
      // Handlers of the failure run first.
      await new Promise(resolve => setImmediate(resolve));
      yield 'next';
    };
    const working = workOnEach(items(), 8, async item => {
      begun.push(item);
      failed.resolve();
      throw new Error(`${item} fails`);
    });
    await assert.rejects(working, /bad fails/);
    assert.deepEqual(begun, ['bad']);
  });

  test('ends only after the begun work, also when there are no more items', async () => {
    const slow = Promise.withResolvers<void>();
    let isDone = false;
    const items = function* () {
      yield 1;
      throw new Error('no more items');
    };
    const working = workOnEach(items(), 8, async () => {
      await slow.promise;
      isDone = true;
    });
    setImmediate(slow.resolve);
    await assert.rejects(working, /no more items/);
    assert.equal(isDone, true);
  });
});
