import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createKeptSteps } from '../../../src/conda/index.ts';

const digest = `sha256:${'a'.repeat(64)}`;

test('a layer of a step is found by its key while its content is here, and is not kept without room', async () => {
  const rows = new Map<string, object>();
  let isHere = true;
  let aborts = 0;
  const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  const kept = createKeptSteps({
    content: { claim: async () => isHere },
    cachedBlobs: { async adopt() {} },
    rows: {
      find: async (key: string) => rows.get(key),
      async enter(row: { key: string }) {
        rows.set(row.key, row);
      },
    },
  } as unknown as Parameters<typeof createKeptSteps>[0]);
  const keep = (error?: Error) =>
    kept.keep('1'.repeat(64), {
      bytes: {
        size: 7,
        digest: () => digest,
        async commit() {
          if (error) throw error;
          return digest;
        },
        async abort() {
          aborts += 1;
        },
      } as never,
      tarDigest: `sha256:${'b'.repeat(64)}` as never,
      isEmpty: false,
    });
  await assert.rejects(keep(full), { code: 'ENOSPC' });
  assert.equal(aborts, 1);
  assert.equal(await kept.find('1'.repeat(64)), undefined);
  const made = await keep();
  assert.equal(made.layer.gzipSize, 7);
  assert.deepEqual(await kept.find('1'.repeat(64)), made);
  assert.equal(await kept.find('2'.repeat(64)), undefined);
  isHere = false;
  assert.equal(await kept.find('1'.repeat(64)), undefined);
  await assert.rejects(keep(), /removed while it was made: try again/);
});
