/** A read replica of PostgreSQL, by real streaming replication: nothing that it answers is older than the bound. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import {
  openPostgresReader,
  type PostgresReader,
} from '../../src/storage/rows/postgres/postgres-reader.ts';
import { postgresStatement } from '../../src/storage/rows/postgres/postgres-statements.ts';
import { openReadReplica, type ReadReplica } from '../../src/storage/rows/postgres/read-replica.ts';
import { together } from '../../src/storage/rows/row-database.ts';
import { openPostgresRows } from '../../src/storage/rows/rows.ts';
import { eventually } from '../world/eventually.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Standby, startStandby } from '../world/postgres-standby.ts';
import { type SilentProxy, startSilentProxy } from '../world/silent-proxy.ts';

const maxAgeMs = 1000;
const newest = postgresStatement<{ readonly number: number; readonly ofReplica: number }>(
  'SELECT (SELECT max(n) FROM notes) AS number, pg_is_in_recovery() AS ofReplica',
);

suite('a read replica of PostgreSQL', () => {
  const reasons: (string | undefined)[] = [];
  let postgres: Postgres;
  let standby: Standby;
  let url: string;
  let proxy: SilentProxy;
  let writer: pg.Client;
  let primary: PostgresReader;
  let replica: ReadReplica;

  before(async () => {
    postgres = await startPostgres();
    url = await postgres.createDatabase();
    writer = new pg.Client(url);
    await writer.connect();
    await writer.query('CREATE TABLE notes (n INTEGER PRIMARY KEY)');
    await writer.query('INSERT INTO notes VALUES (0)');
    standby = await startStandby(url);
    proxy = await startSilentProxy(standby.addressOf(url));
    primary = openPostgresReader(url);
    replica = openReadReplica(
      { url: proxy.url, maxAgeMs, onChange: reason => reasons.push(reason) },
      primary,
    );
  });
  after(async () => {
    await replica?.end();
    await primary?.end();
    await writer?.end();
    await proxy?.[Symbol.asyncDispose]();
    await standby?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  const read = () => replica.database.read(newest.all());
  const isUsed = async () => (await read())[0]?.ofReplica === 1;
  const used = () => eventually('the replica answers', isUsed);
  const administer = async (sql: string) => {
    const client = new pg.Client(standby.addressOf(url));
    await client.connect();
    await client.query(sql);
    await client.end();
  };
  let written = 0;
  /** Writes and reads for a time. Returns how many reads the replica answered, and how many of these with old rows. */
  const readBesideWrites = async (ms: number) => {
    const acknowledged: { readonly number: number; readonly at: number }[] = [];
    const end = performance.now() + ms;
    const counts = { ofReplica: 0, old: 0, ofPrimary: 0 };
    while (performance.now() < end) {
      written += 1;
      await writer.query('INSERT INTO notes VALUES ($1)', [written]);
      acknowledged.push({ number: written, at: performance.now() });
      const before = performance.now();
      const [row] = await read();
      assert.ok(row);
      const oldest = acknowledged.findLast(({ at }) => at < before - maxAgeMs)?.number ?? 0;
      assert.ok(row.number >= oldest, `${row.number} was read, and ${oldest} is too old`);
      if (row.ofReplica === 1) counts.ofReplica += 1;
      else counts.ofPrimary += 1;
      if (row.number < written) counts.old += 1;
    }
    return counts;
  };

  test('answers while nothing changes, and while much does', async () => {
    await used();
    // The log continues in the next file.
    await writer.query('SELECT pg_switch_wal()');
    await sleep(1.5 * maxAgeMs);
    await eventually('it is used on', isUsed, 10_000);
    const { isUsed: isShown, ageMs } = replica.state();
    assert.ok(isShown && ageMs !== undefined && ageMs < maxAgeMs);
    const { ofReplica, ofPrimary } = await readBesideWrites(500);
    assert.ok(ofReplica > ofPrimary);
  });

  test('of several steps are left to the primary', async () => {
    await used();
    const [rows] = await replica.database.read(together([newest.all()]));
    assert.equal(rows[0]?.ofReplica, 0);
  });

  test('is used on while slow reads have all its connections', async () => {
    // Longer than a look waits for a connection.
    const slow = postgresStatement<{ readonly ofReplica: number }>(
      'SELECT pg_is_in_recovery() AS ofReplica, pg_sleep(2.3)::text AS slept',
    );
    const place = async () =>
      String((await writer.query('SELECT pg_current_wal_insert_lsn() AS lsn')).rows[0]?.lsn);
    for (;;) {
      await used();
      const before = reasons.length;
      const from = await place();
      const answers = await Promise.all(
        Array.from({ length: 4 }, () => replica.database.read(slow.all())),
      );
      // PostgreSQL writes to its log by itself now and then: rows from before that are too old.
      if ((await place()) !== from) continue;
      assert.deepEqual(
        answers.map(([row]) => row?.ofReplica),
        [1, 1, 1, 1],
      );
      assert.deepEqual(reasons.slice(before), []);
      return;
    }
  });

  test('never answers what is older than the bound', async () => {
    await used();
    await administer('SELECT pg_wal_replay_pause()');
    const counts = await readBesideWrites(2.5 * maxAgeMs);
    assert.ok(counts.old > 0, 'the replica answers at first');
    assert.ok(counts.ofPrimary > 0, 'the primary answers later');
    assert.equal(await isUsed(), false);
    assert.equal(replica.state().ageMs, undefined);
    assert.equal(reasons.at(-1), 'it is more than 1 s behind the primary');
    await administer('SELECT pg_wal_replay_resume()');
    await used();
  });

  test('answers figures and lists, and the primary all else', async () => {
    const rows = await openPostgresRows(
      url,
      {},
      { url: standby.addressOf(url), maxAgeMs, onChange() {} },
    );
    await eventually('it is used', () => rows.readReplica?.().isUsed === true);
    // It has the tables by now.
    await eventually('it counts', async () => (await rows.usage.count('builds', {})) === 0);
    await administer('SELECT pg_wal_replay_pause()');
    const began = performance.now();
    const count = () => rows.usage.count('builds', {});
    rows.usage.add('builds', '2026-01-01', 'example.org');
    assert.equal(await count(), 1);
    await rows.usage.flush();
    const old = await count();
    const token = Buffer.alloc(32, 1);
    const request = { createdAt: 0, expiresAt: 1, body: '{}', needs: Buffer.alloc(0) };
    await rows.requests.insert(token, request);
    assert.ok(await rows.requests.find(token));
    assert.ok(await rows.requests.revoke(token, 1));
    assert.equal((await rows.requests.find(token))?.revokedAt, 1);
    if (performance.now() - began < maxAgeMs / 2) assert.equal(old, 0);
    await eventually('the primary answers', async () => (await count()) === 1, 5 * maxAgeMs);
    await administer('SELECT pg_wal_replay_resume()');
    await rows.end();
    await used();
  });

  test('behind by a minute answers nothing', async () => {
    await standby.crash();
    await standby.start(['recovery_min_apply_delay=60s']);
    // Rows from before the start are applied at once.
    await readBesideWrites(2 * maxAgeMs);
    const { ofReplica, old } = await readBesideWrites(maxAgeMs);
    assert.deepEqual([ofReplica, old], [0, 0]);
    assert.equal((await read())[0]?.number, written);
    await standby.crash();
    await standby.start();
    await used();
  });

  test('that does not answer holds up nobody', async () => {
    proxy.silence();
    const began = performance.now();
    assert.equal(await isUsed(), false);
    assert.ok(performance.now() - began < 10_000);
    proxy.resume();
    await used();
    await standby.crash();
    assert.equal(await isUsed(), false);
    await eventually('it says why', async () => /does not answer/.test(reasons.at(-1) ?? ''));
    assert.doesNotMatch(reasons.join(' '), /127\.0\.0\.1|sluice@/);
    await standby.start();
    await used();
  });

  test('of another database is not used, nor is a primary', async () => {
    await using other = await startPostgres();
    for (const [named, what] of [
      [url, 'its address does not lead to a replica'],
      [
        standby.addressOf(url.replace(/[^/]*$/, 'postgres')),
        'it is the replica of another database',
      ],
      [await other.createDatabase(), 'its address does not lead to a replica'],
    ] as const) {
      const reasons: (string | undefined)[] = [];
      const opened = openReadReplica(
        { url: named, maxAgeMs: 300, onChange: reason => reasons.push(reason) },
        primary,
      );
      await eventually('it says why', async () => reasons.length > 0);
      assert.equal((await opened.database.read(newest.all()))[0]?.ofReplica, 0);
      assert.deepEqual(reasons, [what]);
      await opened.end();
    }
  });

  test('that has become a primary is not used', async () => {
    await used();
    await administer('SELECT pg_promote()');
    await eventually('it is left alone', async () => !(await isUsed()));
    await sleep(maxAgeMs / 2);
    assert.equal(await isUsed(), false);
    assert.equal(reasons.at(-1), 'its address does not lead to a replica');
  });
});
