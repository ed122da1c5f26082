/** Removal of the kept parts of uploads from a bucket that fails in scripted ways. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Bucket } from '../../src/storage/objects/bucket.ts';
import { keptParts } from '../../src/storage/objects/object-writes.ts';

test('a failed removal is reported, and the listing does not run ahead of the removals', async () => {
  let [listed, removed, ahead] = [0, 0, 0];
  let failsAt = Number.POSITIVE_INFINITY;
  const nextTurn = () => new Promise(resolve => setImmediate(resolve));
  const bucket = {
    async *list() {
      for (listed = 0; listed < 1000; ) {
        yield { key: `uploads/stray/${listed}`, size: 1, modified: 1 };
        listed += 1;
        ahead = Math.max(ahead, listed - removed);
        // A page of the listing takes longer than a removal.
        if (listed % 100 === 0) for (let turn = 0; turn < 20; turn += 1) await nextTurn();
      }
    },
    async remove() {
      await nextTurn();
      if (removed === failsAt) throw new Error('the store is away');
      removed += 1;
    },
  } as unknown as Bucket;
  const parts = keptParts(bucket);
  assert.equal(await parts.removeOthers(2, []), 1000);
  assert.ok(ahead <= 8, `${ahead} parts were listed and not removed`);
  [removed, failsAt] = [0, 99];
  await assert.rejects(parts.removeOthers(2, []), /the store is away/);
  assert.ok(listed < 200, 'the listing ends');
});
