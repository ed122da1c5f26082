import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Rows } from '../../src/storage/rows/rows.ts';

/** @param withRows runs work on fresh rows and ends them */
export function testScans(withRows: (work: (rows: Rows) => Promise<void>) => Promise<void>): void {
  test('a scan ends once, its result is found by what it is about, and old scans are removed', () =>
    withRows(async ({ scans }) => {
      const ended = (id: string, finishedAt: number) => ({
        ...{ id, image: 'r/a@sha256:1', sameness: 'same', startedAt: 2, finishedAt },
        ...{ succeeded: true, reason: null, report: Buffer.from(id), log: 'line\n' },
      });
      for (const id of ['a', 'b', 'c']) await scans.add({ id, image: 'r/a', createdAt: 1 });
      assert.deepEqual(await scans.find('a'), {
        ...{ id: 'a', image: 'r/a', createdAt: 1, startedAt: null, finishedAt: null },
        ...{ succeeded: null, reason: null, report: null, log: '' },
      });
      await scans.finish(ended('a', 10));
      await scans.finish({ ...ended('a', 11), succeeded: false });
      await scans.finish(ended('b', 20));
      await scans.finish({ ...ended('c', 30), succeeded: false, report: null, reason: 'why' });
      const { sameness: _, ...row } = ended('a', 10);
      assert.deepEqual(await scans.find('a'), { ...row, createdAt: 1 });
      assert.equal((await scans.find('c'))?.reason, 'why');
      assert.deepEqual(await scans.sharedResult('same', 10, 20), {
        id: 'b',
        report: Buffer.from('b'),
      });
      assert.equal(await scans.sharedResult('same', 21, 99), undefined);
      assert.equal(await scans.sharedResult('other', 0, 99), undefined);
      // The newest one is of a clock that was wrong.
      assert.equal((await scans.sharedResult('same', 5, 19))?.id, 'a');
      assert.equal(await scans.details('b'), undefined);
      await scans.add({ id: 'd', image: 'r/a', createdAt: 5 });
      await scans.add({ id: 'e', image: 'r/a', createdAt: 6 });
      await scans.finish({ ...ended('d', 30), details: Buffer.from('packed') });
      await scans.finish({ ...ended('e', 31), report: null, detailsOf: 'd' });
      for (const id of ['d', 'e']) {
        assert.deepEqual(await scans.details(id), Buffer.from('packed'));
        assert.deepEqual((await scans.find(id))?.report, Buffer.from('d'));
      }
      assert.equal(await scans.details('unknown'), undefined);
      await scans.purge(5);
      assert.equal(await scans.find('a'), undefined);
      assert.ok(await scans.find('d'));
    }));
}
