/** Threads share one room of memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noteIdle } from '../../../src/conda/threads/one-task.ts';
import { inRoom, takeRoom, threadNeeds } from '../../../src/conda/threads/thread-room.ts';
import { eventually } from '../../world/eventually.ts';

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

test('work that cannot wait begins at once, and later work has less room', async () => {
  const began: string[] = [];
  const layers = ['one', 'two'].map(name => work(threadNeeds.layer, began, name));
  const give = takeRoom(threadNeeds.pages);
  const solve = work(threadNeeds.solve, began, 'solve');
  for (const { end, done } of layers) {
    end();
    await done;
  }
  await settled();
  assert.deepEqual(began, ['one', 'two', 'solve'], 'both fit when the layers are done');
  const large = work(threadNeeds.large, began, 'large');
  solve.end();
  await solve.done;
  await settled();
  assert.equal(began.includes('large'), false);
  give();
  await eventually('the room is free', () => began.includes('large'));
  large.end();
  await large.done;
});

test('an idle thread ends when the process is large and others work, and stays otherwise', async () => {
  const began: string[] = [];
  let ended = 0;
  const forget = noteIdle(async () => {
    ended += 1;
  });
  // As large as a server with threads.
  const much = Buffer.alloc(256 * 1024 * 1024, 1);
  const { setTimeout: sleep } = await import('node:timers/promises');
  await sleep(1200);
  assert.equal(ended, 0, 'nothing works');
  const layer = work(threadNeeds.layer, began, 'layer');
  await eventually('the thread has ended', () => ended === 1);
  forget();
  layer.end();
  await layer.done;
  assert.equal(much.at(-1), 1);
});
