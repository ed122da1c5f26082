/** Threads share one room of memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inRoom, threadNeeds } from '../../../src/conda/threads/thread-room.ts';

/** Work that begins when there is room, and ends when it is told to. */
function work(need: number, began: string[], name: string) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const done = inRoom(need, async () => {
    began.push(name);
    await promise;
  });
  return { done, end: resolve, fail: reject };
}

/** Lets everything begin that can. */
const settled = () => new Promise(resolve => setImmediate(resolve));

test('work for all of the room runs alone, and later work does not overtake it', async () => {
  const began: string[] = [];
  const layer = work(threadNeeds.layer, began, 'layer');
  const solve = work(threadNeeds.solve, began, 'solve');
  const large = work(threadNeeds.large, began, 'large');
  const last = work(threadNeeds.documents, began, 'last');
  await settled();
  assert.deepEqual(began, ['layer', 'solve']);
  layer.end();
  await layer.done;
  await settled();
  assert.deepEqual(began, ['layer', 'solve']);
  solve.end();
  await solve.done;
  await settled();
  assert.deepEqual(began, ['layer', 'solve', 'large']);
  large.end();
  await large.done;
  await settled();
  assert.deepEqual(began, ['layer', 'solve', 'large', 'last']);
  last.end();
  await last.done;
});

test('work that fails gives its room back', async () => {
  const began: string[] = [];
  const large = work(threadNeeds.large, began, 'large');
  const solve = work(threadNeeds.solve, began, 'solve');
  large.fail(new Error('out of luck'));
  await assert.rejects(large.done, /out of luck/);
  await settled();
  assert.deepEqual(began, ['large', 'solve']);
  solve.end();
  await solve.done;
});
