import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rememberSuccess } from '../src/foundation/work.ts';

test('work is done once for all callers, and again only after it has failed', async () => {
  const failure = new Error('the disk is full');
  let times = 0;
  let fails = true;
  const work = rememberSuccess(async () => {
    times += 1;
    if (fails) throw failure;
    return times;
  });
  assert.equal(work.begun(), undefined);
  const both = await Promise.allSettled([work.get(), work.get()]);
  assert.deepEqual(
    both.map(one => one.status === 'rejected' && one.reason),
    [failure, failure],
  );
  assert.equal(times, 1);
  assert.equal(work.begun(), undefined);
  fails = false;
  assert.equal(await work.get(), 2);
  assert.equal(await work.get(), 2);
  assert.equal(await work.begun(), 2);
});
