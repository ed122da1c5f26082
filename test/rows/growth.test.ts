/** Many rows never block the event loop, in queries and in deletions. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { freeSpace, returnFreePages } from '../../src/storage/rows/file/rows-upkeep.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';
import { rowsOf } from '../../src/storage/rows/rows.ts';
import { fillDatabase } from '../world/many-rows.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { dayMs, growthCounts, growthWorks, measureWorks, unlimited } from './growth-works.ts';

// SCALE=20 is ten million rows: by hand, it takes half an hour.
const scale = Number(process.env.SCALE ?? 1);

suite(`${scale / 2} million rows`, () => {
  test('queries and deletions do not block the event loop', async t => {
    await using directory = await makeTempDir('growth');
    const database = openDatabase(directory.join('sluice.db'), {});
    fillDatabase(database, growthCounts(scale));
    // The log of a server never gets as long as in one transaction of all these rows.
    database.pragma('wal_checkpoint(TRUNCATE)');
    const count = (table: string) =>
      Number(database.prepare(`SELECT COUNT(*) FROM ${table}`).pluck().get());

    const rows = rowsOf(database);
    await measureWorks(t, {
      ...growthWorks(rows, scale, async table => count(table)),
      'return of free pages': () => returnFreePages(database),
    });
    assert.deepEqual(
      [count('requests'), count('builds'), count('hosted_manifests')],
      [30_000 * scale, 0, 0],
    );
    assert.equal(
      await rows.hosted.totalBytes(),
      100_000_000 * scale,
      'blobs without manifests are orphans from now on',
    );
    const { freeBytes } = freeSpace(database);
    assert.ok(freeBytes <= 16 * 1024 * 1024, `${freeBytes} bytes of the file are free`);
    await database.end();
  });

  test('work in small steps can be ended, and releases the lock between the steps', async () => {
    await using directory = await makeTempDir('growth');
    const path = directory.join('sluice.db');
    const database = openDatabase(path, {});
    fillDatabase(database, { endedRequests: 50_000 });
    const other = openDatabase(path);
    const stop = new AbortController();
    const purging = createTokenRegistry(createRequestStore(database), dayMs, unlimited).purge(
      stop.signal,
    );
    let written = 0;
    while (written < 20) {
      await sleep(1);
      other.prepare('INSERT INTO users (email, created_at) VALUES (?, 1)').run(`${written}@a.org`);
      written += 1;
    }
    stop.abort(new Error('enough'));
    await assert.rejects(purging, /enough|aborted/);
    other.close();
    await database.end();
  });

  test('a lock of another process is waited for', async () => {
    await using directory = await makeTempDir('growth');
    const path = directory.join('sluice.db');
    const [database, other] = [openDatabase(path, {}), openDatabase(path)];
    fillDatabase(database, { endedRequests: 10 });
    other.exec('BEGIN IMMEDIATE');
    const purging = createTokenRegistry(createRequestStore(database), dayMs, unlimited).purge();
    await sleep(100);
    other.exec('COMMIT');
    await purging;
    assert.equal(database.prepare('SELECT COUNT(*) FROM requests').pluck().get(), 0);
    other.close();
    await database.end();
  });
});
