/** Figures for operators: bounded, kept in memory until they are written, and removed after their time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketOf, quantile } from '../../src/foundation/telemetry/time-buckets.ts';
import { purgeFigures } from '../../src/server/upkeep/figures.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import {
  createDayCountStore,
  mostNames,
  otherNames,
} from '../../src/storage/rows/figures/day-count-rows.ts';
import { createPullStore } from '../../src/storage/rows/figures/pull-rows.ts';
import { createQueueStore } from '../../src/storage/rows/figures/queue-rows.ts';

const dayMs = 24 * 3_600_000;

test('counts are seen at once, written together, and added to those of other days', async () => {
  const database = openDatabase(':memory:');
  const clock = { now: Date.parse('2026-01-01T23:59:59Z') };
  const counts = createDayCountStore(database, () => clock.now);
  counts.add('limits', 'pulls');
  counts.add('limits', 'pulls', 2);
  counts.add('build steps', 'cached', 5);
  clock.now += 2000;
  counts.add('limits', 'pulls');
  const ofDay = async (day: string) => [...(await counts.ofDay('limits', day))];
  assert.deepEqual(await ofDay('2026-01-01'), [['pulls', 3]]);
  const rows = () => database.prepare('SELECT COUNT(*) FROM day_counts').pluck().get();
  assert.equal(rows(), 0);
  await counts.flush();
  await counts.flush();
  assert.equal(rows(), 3);
  counts.add('limits', 'builds');
  counts.add('limits', 'pulls');
  assert.deepEqual(
    new Map(await ofDay('2026-01-02')),
    new Map([
      ['pulls', 2],
      ['builds', 1],
    ]),
  );
});

test('counts that cannot be written are kept, and whoever counts does not fail', async () => {
  const database = openDatabase(':memory:');
  const counts = createDayCountStore(database, () => Date.parse('2026-01-01'));
  database.exec('ALTER TABLE day_counts RENAME TO away');
  counts.add('limits', 'pulls');
  await assert.rejects(counts.flush(), /no such table/);
  database.exec('ALTER TABLE away RENAME TO day_counts');
  counts.add('limits', 'pulls');
  await counts.flush();
  assert.deepEqual([...(await counts.ofDay('limits', '2026-01-01'))], [['pulls', 2]]);
});

test('a flood of names takes bounded rows, also after a new start', async () => {
  const database = openDatabase(':memory:');
  const flood = async (first: number) => {
    const counts = createDayCountStore(database, () => Date.parse('2026-01-01'));
    for (let at = 0; at < 20_000; at += 1) {
      counts.add('refused callers', `caller ${first + at} ${'x'.repeat(10_000)}`);
      if (at % 5000 === 0) await counts.flush();
    }
    counts.add('refused callers', `caller 0 ${'x'.repeat(10_000)}`);
    await counts.flush();
    return counts;
  };
  await flood(0);
  const counts = await flood(20_000);
  const found = await counts.ofDay('refused callers', '2026-01-01');
  assert.ok(found.size <= mostNames + 1, `${found.size} names`);
  assert.equal(
    found.values().reduce((sum, count) => sum + count, 0),
    40_002,
    'no event is lost',
  );
  assert.ok((found.get(otherNames) ?? 0) >= 38_000);
  const name = [...found.keys()].find(one => one.startsWith('caller 0 ')) ?? '';
  assert.deepEqual([name.length, found.get(name)], [200, 2], 'early names stay');
});

test('the queue is kept by hour, with its peaks', async () => {
  const queue = createQueueStore(openDatabase(':memory:'));
  const at = Date.parse('2026-01-01T10:00:00Z');
  queue.note(at, { running: 2, waiting: 0 });
  await queue.flush();
  queue.note(at + 60_000, { running: 4, waiting: 7 });
  queue.note(at + 3_600_000, { running: 1, waiting: 0 });
  const expected = [
    { at, samples: 2, queued: 1, mostRunning: 4, mostWaiting: 7 },
    { at: at + 3_600_000, samples: 1, queued: 0, mostRunning: 1, mostWaiting: 0 },
  ];
  assert.deepEqual(await queue.between(at, at + dayMs), expected);
  await queue.flush();
  assert.deepEqual(await queue.between(at, at + dayMs), expected);
});

test('figures are removed after 400 days, and names of callers after 30', async () => {
  const database = openDatabase(':memory:');
  const clock = { now: Date.now() };
  const dayCounts = createDayCountStore(database, () => clock.now);
  const queue = createQueueStore(database);
  for (const age of [0, 29, 31, 399, 402]) {
    clock.now = Date.now() - age * dayMs;
    for (const kind of ['limits', 'refused callers'] as const) dayCounts.add(kind, `age ${age}`);
    queue.note(clock.now, { running: age, waiting: 0 });
  }
  await dayCounts.flush();
  await queue.flush();
  await purgeFigures({ dayCounts, queue, pulls: createPullStore(database) });
  const names = (kind: string) =>
    database.prepare('SELECT name FROM day_counts WHERE kind = ? ORDER BY day').pluck().all(kind);
  assert.deepEqual(names('limits'), ['age 399', 'age 31', 'age 29', 'age 0']);
  assert.deepEqual(names('refused callers'), ['age 29', 'age 0']);
  const hours = await queue.between(0, Date.now() + dayMs);
  assert.deepEqual(
    hours.map(hour => hour.mostRunning),
    [399, 31, 29, 0],
  );
});

test('median and 95th percentile of counted times are at most 5 % off', () => {
  const times = Array.from({ length: 10_000 }, (_, at) => 3 * (at + 1) ** 1.4);
  const counts = new Map<number, number>();
  for (const ms of times) counts.set(bucketOf(ms), (counts.get(bucketOf(ms)) ?? 0) + 1);
  for (const share of [0.5, 0.95, 1]) {
    const exact = times[Math.ceil(times.length * share) - 1] ?? 0;
    const found = quantile(counts, share) ?? 0;
    assert.ok(Math.abs(found / exact - 1) < 0.05, `${share}: ${found} for ${exact}`);
  }
  assert.equal(quantile(new Map(), 0.5), undefined);
  assert.equal(bucketOf(Number.MAX_SAFE_INTEGER), bucketOf(1e12), 'a wrong clock takes one bucket');
  assert.equal(bucketOf(-5), 0);
});
