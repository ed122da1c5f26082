/** Work that shares the event loop. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pauseTurn } from '../src/foundation/pause-turn.ts';
import { boundMs, longestBlock } from './world/longest-block.ts';

/** Works in units of a millisecond, with a pause before each. */
async function work(units: number): Promise<void> {
  for (let unit = 0; unit < units; unit += 1) {
    await pauseTurn();
    const began = performance.now();
    while (performance.now() - began < 1);
  }
}

test('many that work side by side block the event loop no longer than one', async () => {
  const crowd = () => Promise.all(Array.from({ length: 20 }, () => work(20)));
  const { cpuMs } = await longestBlock(crowd);
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});

test('short work does not wait for the end of long work', async () => {
  const ended: string[] = [];
  const run = async (name: string, units: number) => {
    await work(units);
    ended.push(name);
  };
  await Promise.all([run('long', 200), run('middle', 60), run('short', 5)]);
  assert.deepEqual(ended, ['short', 'middle', 'long']);
});

test('work that continues after a rest is not left waiting', async () => {
  for (let turn = 0; turn < 3; turn += 1) {
    await work(20);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
});
