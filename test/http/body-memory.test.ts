import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBodyMemory } from '../../src/http/bodies/body-memory.ts';

const kibibyte = 1024;

test('large bodies of a few callers do not delay small bodies of others', async () => {
  const memory = createBodyMemory(4096 * kibibyte, 50);
  const large = ['a', 'b', 'c', 'd'].map(caller => memory.open(caller));
  for (const share of large) assert.equal(share.add(1024 * kibibyte), undefined);
  const small = memory.open('administrator');
  assert.equal(small.add(18), undefined);
  const big = memory.open('e').add(65 * kibibyte);
  await assert.rejects(big ?? assert.fail('there is no space'), { kind: 'unavailable' });
  // The reserve has a limit too.
  const more = Array.from({ length: 20 }, (_, at) => memory.open(`f${at}`).add(64 * kibibyte));
  const waiting = more.filter(room => room !== undefined);
  assert.equal(waiting.length, 13);
  for (const room of waiting) await assert.rejects(room, { kind: 'unavailable' });
  for (const share of [...large, small]) share.close();
});
