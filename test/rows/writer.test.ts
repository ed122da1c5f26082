import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import Sqlite from 'better-sqlite3';
import type { Fault } from '../../src/foundation/fault.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createWriter } from '../../src/storage/rows/file/writer.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const noPause = () => undefined;

function openTable() {
  const database = new Sqlite(':memory:');
  database.exec('CREATE TABLE numbers (number INTEGER UNIQUE)');
  const insert = database.prepare('INSERT INTO numbers VALUES (?)');
  const all = database.prepare('SELECT number FROM numbers ORDER BY number').pluck();
  return { database, add: (number: number) => void insert.run(number), all: () => all.all() };
}

const settleFirst = async () => {};

/** A transaction ends early when its jobs take long, as they may on a busy machine. */
function noTimePasses(t: TestContext): void {
  const now = performance.now();
  t.mock.method(performance, 'now', () => now);
}

test('simultaneous writes share a transaction and a flush; a failed one is undone alone', async t => {
  noTimePasses(t);
  const { database, add, all } = openTable();
  let flushes = 0;
  const flush = async () => {
    flushes += 1;
  };
  const { write } = createWriter({ database, settleFirst, flush, pause: noPause });
  const results = await Promise.allSettled([
    write(() => add(1)),
    write(() => {
      add(2);
      throw new Error('the work fails');
    }),
    write(() => add(1)),
    write(() => {
      add(3);
      return 'three';
    }),
  ]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
  );
  assert.deepEqual(results[3], { status: 'fulfilled', value: 'three' });
  assert.deepEqual(all(), [1, 3]);
  assert.equal(flushes, 1);
});

test('a write is acknowledged after the flush that follows it, a commit before', async t => {
  noTimePasses(t);
  const { database, add, all } = openTable();
  const flushed = Promise.withResolvers<void>();
  const { write, commit } = createWriter({
    database,
    settleFirst,
    flush: () => flushed.promise,
    pause: noPause,
  });
  let isWritten = false;
  const writing = write(() => add(1)).then(() => {
    isWritten = true;
  });
  await commit(() => add(2));
  assert.deepEqual(all(), [1, 2], 'readers see both');
  assert.equal(isWritten, false);
  flushed.resolve();
  await writing;
});

test('a row is written once its content is on the disk', async () => {
  const { database, add, all } = openTable();
  const settled = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let asked = 0;
  const { write, commit } = createWriter({
    database,
    settleFirst: () => settled[asked++]?.promise ?? Promise.resolve(),
    flush: async () => {},
    pause: noPause,
  });
  const first = write(() => add(1));
  while (asked === 0) await new Promise(setImmediate);
  // Its content may have arrived after the flush started: it is not written with the first.
  const second = write(() => add(2));
  assert.deepEqual(all(), []);
  settled[0]?.resolve();
  await first;
  assert.deepEqual(all(), [1]);
  const other = commit(() => add(3));
  settled[1]?.reject(new Error('the disk fails'));
  await assert.rejects(second, /the disk fails/);
  await other;
  assert.deepEqual(all(), [1, 3]);
});

test('a write whose flush fails is not acknowledged', async () => {
  const { database, add } = openTable();
  const flush = () => Promise.reject(new Error('the disk fails'));
  const { write } = createWriter({ database, settleFirst, flush, pause: noPause });
  await assert.rejects(
    write(() => add(1)),
    /the disk fails/,
  );
});

test('a write waits for a lock until its timeout, without blocking anything else', async () => {
  await using directory = await makeTempDir('writer');
  const database = openDatabase(directory.join('sluice.db'), {});
  database.exec('CREATE TABLE numbers (number INTEGER UNIQUE)');
  const add = (number: number) => database.sql('INSERT INTO numbers VALUES (?)').run(number);
  const other = new Sqlite(directory.join('sluice.db'));
  other.exec('BEGIN IMMEDIATE');
  const began = performance.now();
  const patient = database.write(() => add(1));
  await assert.rejects(
    database.write(() => add(2), { patienceMs: 100 }),
    (error: Fault) =>
      error.status === 503 && error.retryAfterSeconds === 5 && /locked/.test(error.message),
  );
  assert.ok(performance.now() - began >= 100);
  assert.deepEqual(database.prepare('SELECT number FROM numbers').all(), [], 'reads go on');
  other.exec('COMMIT');
  other.close();
  await patient;
  assert.deepEqual(database.prepare('SELECT number FROM numbers').pluck().all(), [1]);
  await database.end();
});

test('the log of a database with continuous writes is restarted', async () => {
  await using directory = await makeTempDir('writer');
  const path = directory.join('sluice.db');
  const database = openDatabase(path, {});
  database.exec('CREATE TABLE texts (text TEXT)');
  const insert = database.sql('INSERT INTO texts VALUES (?)');
  const text = 'x'.repeat(256 * 1024);
  let written = 0;
  const isShort = async () => {
    await database.write(() => insert.run(text));
    written += text.length;
    return written > 2 * (await stat(`${path}-wal`)).size;
  };
  await eventually('the log has half of the written bytes', isShort, 60_000);
  await database.end();
  assert.ok(!existsSync(`${path}-wal`), 'all of it is in the database');
  const again = openDatabase(path);
  assert.equal(again.prepare('SELECT COUNT(*) FROM texts').pluck().get(), written / text.length);
  again.close();
});
