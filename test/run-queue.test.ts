import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunQueue } from '../src/foundation/run-queue.ts';

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
