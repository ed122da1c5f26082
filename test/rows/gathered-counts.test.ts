/** Counts that are written together: in short steps, each once, and right for readers at any moment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../src/storage/rows/database.ts';
import {
  createDayCountStore,
  createQueueStore,
} from '../../src/storage/rows/figures/count-rows.ts';
import {
  createPullStore,
  createUsageStore,
  type PullSubject,
} from '../../src/storage/rows/figures/usage-rows.ts';
import type { RowDatabase } from '../../src/storage/rows/row-database.ts';
import { boundMs } from '../world/longest-block.ts';

const day = '2026-01-01';
const now = () => Date.parse(day);
const subjects = (count: number) =>
  Array.from({ length: count }, (_, at) => `repository ${at}` as PullSubject);

/** The database, with work around each of its commits. */
function around(
  database: RowDatabase,
  work: (commit: () => Promise<unknown>) => Promise<unknown>,
): RowDatabase {
  return {
    ...database,
    commit: async (change, options) =>
      (await work(() => database.commit(change, options))) as never,
  };
}

test('50,000 waiting counts are written in steps that leave the event loop free', async () => {
  const database = openDatabase(':memory:');
  const pulls = createPullStore(database, now);
  pulls.note(subjects(50_000));
  let isDone = false;
  const flushed = pulls.flush().finally(() => {
    isDone = true;
  });
  let turns = 0;
  let longestMs = 0;
  for (let before = process.threadCpuUsage(); !isDone; before = process.threadCpuUsage()) {
    await new Promise(setImmediate);
    const { user, system } = process.threadCpuUsage(before);
    longestMs = Math.max(longestMs, (user + system) / 1000);
    turns += 1;
  }
  await flushed;
  assert.equal(database.prepare('SELECT SUM(count) FROM pulls').pluck().get(), 50_000);
  assert.ok(turns >= 10, `${turns} turns`);
  assert.ok(longestMs < boundMs(50), `a step of ${longestMs} ms`);
});

test('an error between two steps neither loses a count nor writes it twice', async () => {
  const database = openDatabase(':memory:');
  let commits = 0;
  const failing = around(database, async commit => {
    commits += 1;
    if (commits === 2) throw new Error('disk full');
    return commit();
  });
  const pulls = createPullStore(failing, now);
  const all = subjects(20_000);
  pulls.note(all);
  const refused = assert.rejects(pulls.flush(), /disk full/);
  pulls.note(all);
  await refused;
  const written = database.prepare('SELECT SUM(count) FROM pulls').pluck();
  assert.ok(Number(written.get()) < 20_000);
  for (const subject of [all.at(0), all.at(-1)]) {
    assert.ok(subject);
    assert.equal((await pulls.recent(subject, day)).count, 2);
  }
  await pulls.flush();
  assert.equal(written.get(), 40_000);
  assert.equal(
    database.prepare('SELECT COUNT(*) FROM pulls WHERE count = 2').pluck().get(),
    20_000,
  );
});

test('a flush also writes what was added during the one before it', async () => {
  const database = openDatabase(':memory:');
  const usage = createUsageStore(database);
  usage.add('pulls', day, 'a.org');
  const first = usage.flush();
  await new Promise(setImmediate);
  usage.add('pulls', day, 'b.org');
  await Promise.all([first, usage.flush()]);
  assert.equal(database.prepare('SELECT SUM(count) FROM usage').pluck().get(), 2);
});

test('figures are right while the database across a network has written them and not yet answered', async () => {
  const committed = Promise.withResolvers<void>();
  const response = Promise.withResolvers<void>();
  const database = around(openDatabase(':memory:'), async commit => {
    const result = await commit();
    committed.resolve();
    await response.promise;
    return result;
  });
  const pulls = createPullStore(database, now);
  const usage = createUsageStore(database);
  const dayCounts = createDayCountStore(database, now);
  const queue = createQueueStore(database);
  const [one] = subjects(1);
  assert.ok(one);
  pulls.note([one]);
  usage.add('pulls', day, 'a.org');
  dayCounts.add('limits', { limit: 'pulls' });
  queue.note(now(), { running: 1, waiting: 0 });
  const stores = [pulls, usage, dayCounts, queue];
  const flushed = stores.map(store => store.flush());
  await committed.promise;
  await new Promise(setImmediate);
  const found = Promise.all([
    pulls.recent(one, day).then(({ count }) => count),
    pulls.byDay(one, day).then(days => days[0]?.count),
    usage.count('pulls', {}),
    usage.ofDay('pulls', day, 10).then(({ count }) => count),
    dayCounts.ofDay('limits', day).then(([pulls]) => pulls?.count),
    queue.between(0, now() + 1).then(hours => hours[0]?.samples),
  ]);
  await new Promise(setImmediate);
  response.resolve();
  assert.deepEqual(await found, [1, 1, 1, 1, 1, 1]);
  await Promise.all(flushed);
});
