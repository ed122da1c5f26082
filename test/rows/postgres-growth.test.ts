/** Many rows in PostgreSQL: no work blocks the event loop, and none becomes slower by rows that were removed. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import pg from 'pg';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { openPostgresRows } from '../../src/storage/rows/rows.ts';
import { eventually } from '../world/eventually.ts';
import { fillDatabase, moveToPostgres } from '../world/many-rows.ts';
import { startPostgres } from '../world/postgres.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { growthCounts, growthWorks, measureWorks } from './growth-works.ts';

// SCALE=20 is ten million rows: by hand, it takes hours.
const scale = Number(process.env.SCALE ?? 0.1);

suite(`${scale / 2} million rows in PostgreSQL`, () => {
  test('queries and deletions do not block the event loop', async t => {
    await using directory = await makeTempDir('postgres-growth');
    await using postgres = await startPostgres();
    const path = directory.join('sluice.db');
    const file = openDatabase(path, {});
    fillDatabase(file, growthCounts(scale));
    await file.end();
    const url = await postgres.createDatabase();
    const began = performance.now();
    await moveToPostgres(path, url);
    t.diagnostic(`move to PostgreSQL: ${Math.round(performance.now() - began)} ms`);
    const rows = await openPostgresRows(url);
    const client = new pg.Client(url);
    await client.connect();
    const count = async (table: string) =>
      Number((await client.query(`SELECT COUNT(*) AS count FROM ${table}`)).rows[0].count);
    try {
      await measureWorks(t, growthWorks(rows, scale, count));
      assert.deepEqual(
        [await count('requests'), await count('builds'), await count('hosted_manifests')],
        [30_000 * scale, 0, 0],
      );
      assert.equal(await rows.hosted.totalBytes(), 100_000_000 * scale);
    } finally {
      await client.end();
      await rows.end();
    }
  });

  test('removals pass rows a few times that somebody with an older state still sees', async t => {
    const count = 6400;
    await using directory = await makeTempDir('postgres-removals');
    await using postgres = await startPostgres();
    const path = directory.join('sluice.db');
    const file = openDatabase(path, {});
    fillDatabase(file, { endedRequests: count, pulls: 2 * count, tags: count });
    await file.end();
    const url = await postgres.createDatabase();
    await moveToPostgres(path, url);
    const client = new pg.Client(url);
    await client.connect();
    try {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      const {
        rows: [pulls],
      } = await client.query('SELECT COUNT(*) AS count FROM pulls');
      assert.ok(Number(pulls.count) > count);
      const rows = await openPostgresRows(url);
      assert.equal(await rows.requests.purge(Date.now()), count);
      assert.deepEqual(await rows.requests.needsAfter(Buffer.alloc(0), Date.now(), 10), []);
      assert.equal(await rows.pulls.purge('9999-12-31'), Number(pulls.count));
      await rows.hosted.removeManifests('many/tags');
      assert.equal(await rows.hosted.hasRepository('many/tags'), false);
      await rows.end();
      await client.query('ROLLBACK');
      const passed = async (index: string) => {
        const { rows } = await client.query(
          'SELECT idx_tup_read AS passed FROM pg_stat_user_indexes WHERE indexrelname = $1',
          [index],
        );
        return Number(rows[0].passed);
      };
      for (const index of [
        ...['requests_by_expiry', 'requests_by_needs', 'pulls_by_day'],
        ...['hosted_tags_pkey', 'hosted_manifests_pkey'],
      ]) {
        await eventually('the connections that ended have given their counts', async () => {
          return (await passed(index)) >= count;
        });
        const each = (await passed(index)) / count;
        t.diagnostic(`${index}: ${each.toFixed(2)} times`);
        assert.ok(each < 5, `${index} was passed ${each} times`);
      }
    } finally {
      await client.end();
    }
  });
});
