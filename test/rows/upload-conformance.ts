import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Rows } from '../../src/storage/rows/rows.ts';

/** @param withRows runs work on fresh rows and ends them */
export function testUploads(
  withRows: (work: (rows: Rows) => Promise<void>) => Promise<void>,
): void {
  test('uploads are kept until they end or are abandoned', () =>
    withRows(async ({ uploads }) => {
      const upload = (id: string, usedAt: number, size = 1) => ({
        ...{ id, usedAt, size, repository: 'team/app', owner: 'somebody' },
        ...{ draft: `draft of ${id}`, algorithm: 'sha512' as const },
      });
      for (const [id, usedAt] of [
        ['one', 10],
        ['two', 30],
        ['three', 20],
      ] as const) {
        await uploads.keep(upload(id, usedAt));
      }
      await uploads.keep(upload('one', 40, 2 ** 40));
      assert.deepEqual(await uploads.latest(2), [upload('one', 40, 2 ** 40), upload('two', 30)]);
      await uploads.remove('one');
      await uploads.remove('one');
      assert.deepEqual(await uploads.latest(10), [upload('two', 30), upload('three', 20)]);
    }));
}
