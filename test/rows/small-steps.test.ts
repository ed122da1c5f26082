/** Work in small steps: how many rows a statement changes follows what the last one took. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Call, Change, RowDatabase } from '../../src/storage/rows/row-database.ts';
import { inSmallSteps } from '../../src/storage/rows/small-steps.ts';

/** A database in memory, whose statements run at once. */
function databaseOf(isInThread: boolean): Pick<RowDatabase, 'commit' | 'settle' | 'isInThread'> {
  return {
    isInThread,
    async commit<T>(change: Change<T>): Promise<T> {
      const { value } = change()[Symbol.iterator]().next();
      return value as T;
    },
    async settle() {},
  };
}

/** Changes rows that take so long each, as with a disk that is busy; returns how many each statement changed. */
async function change(isInThread: boolean, rowMs: number, count: number): Promise<number[]> {
  const sizes: number[] = [];
  let left = count;
  const step = (limit: number): Call<number> => ({
    [Symbol.iterator]: () => ({
      next() {
        const found = Math.min(limit, left);
        const end = performance.now() + found * rowMs;
        while (performance.now() < end);
        left -= found;
        sizes.push(limit);
        return { done: true, value: found };
      },
    }),
  });
  assert.equal(await inSmallSteps(databaseOf(isInThread), step), count);
  return sizes;
}

suite('small steps', () => {
  test('change few rows at once while each takes long and holds the event loop', async () => {
    assert.ok(Math.max(...(await change(true, 1, 100))) <= 8);
  });

  test('change many rows at once while that is fast', async () => {
    assert.equal(Math.max(...(await change(true, 0.001, 1000))), 32);
  });

  test('change many rows at once across the network, where a statement holds nothing', async () => {
    assert.deepEqual(new Set(await change(false, 0.5, 130)), new Set([64]));
  });
});
