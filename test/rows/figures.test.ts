/** Figures for operators: bounded, kept in memory until they are written, and removed after their time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { noTally } from '../../src/foundation/telemetry/tally.ts';
import { withMetrics } from '../../src/foundation/telemetry/tally-metrics.ts';
import { bucketOf, quantile } from '../../src/foundation/telemetry/time-buckets.ts';
import { purgeFigures } from '../../src/server/upkeep/chores.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import {
  createDayCountStore,
  createQueueStore,
  mostNames,
  otherNames,
} from '../../src/storage/rows/figures/count-rows.ts';
import { createPullStore } from '../../src/storage/rows/figures/usage-rows.ts';

const dayMs = 24 * 3_600_000;

test('counts are seen at once, written together, and added to those of other days', async () => {
  const database = openDatabase(':memory:');
  const clock = { now: Date.parse('2026-01-01T23:59:59Z') };
  const counts = createDayCountStore(database, () => clock.now);
  counts.add('limits', { limit: 'pulls' });
  counts.add('limits', { limit: 'pulls' }, 2);
  counts.add('build steps', { state: 'cached' }, 5);
  clock.now += 2000;
  counts.add('limits', { limit: 'pulls' });
  const ofDay = async (day: string) =>
    (await counts.ofDay('limits', day)).map(({ labels, count }) => [labels.limit, count]);
  assert.deepEqual(await ofDay('2026-01-01'), [['pulls', 3]]);
  const rows = () => database.prepare('SELECT COUNT(*) FROM day_counts').pluck().get();
  assert.equal(rows(), 0);
  await counts.flush();
  await counts.flush();
  assert.equal(rows(), 3);
  counts.add('limits', { limit: 'builds' });
  counts.add('limits', { limit: 'pulls' });
  assert.deepEqual(await ofDay('2026-01-02'), [
    ['pulls', 2],
    ['builds', 1],
  ]);
});

test('counts that cannot be written are kept, and whoever counts does not fail', async () => {
  const database = openDatabase(':memory:');
  const counts = createDayCountStore(database, () => Date.parse('2026-01-01'));
  database.exec('ALTER TABLE day_counts RENAME TO away');
  counts.add('limits', { limit: 'pulls' });
  await assert.rejects(counts.flush(), /no such table/);
  database.exec('ALTER TABLE away RENAME TO day_counts');
  counts.add('limits', { limit: 'pulls' });
  await counts.flush();
  assert.deepEqual(await counts.ofDay('limits', '2026-01-01'), [
    { labels: { limit: 'pulls' }, count: 2 },
  ]);
});

test('a flood of names takes bounded rows, also after a new start', async () => {
  const database = openDatabase(':memory:');
  const flood = async (first: number) => {
    const counts = createDayCountStore(database, () => Date.parse('2026-01-01'));
    for (let at = 0; at < 20_000; at += 1) {
      counts.add('refused callers', { caller: `caller ${first + at} ${'x'.repeat(10_000)}` });
      if (at % 5000 === 0) await counts.flush();
    }
    counts.add('refused callers', { caller: `caller 0 ${'x'.repeat(10_000)}` });
    await counts.flush();
    return counts;
  };
  await flood(0);
  const counts = await flood(20_000);
  const stored = await counts.ofDay('refused callers', '2026-01-01');
  const found = new Map(stored.map(({ labels, count }) => [labels.caller, count]));
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
    dayCounts.add('limits', { limit: `age ${age}` });
    dayCounts.add('refused callers', { caller: `age ${age}` });
    queue.note(clock.now, { running: age, waiting: 0 });
  }
  await dayCounts.flush();
  await queue.flush();
  await purgeFigures({ dayCounts, queue, pulls: createPullStore(database) });
  const names = (kind: string, label: string) =>
    database
      .prepare('SELECT labels ->> ? FROM day_counts WHERE kind = ? ORDER BY day')
      .pluck()
      .all(label, kind);
  assert.deepEqual(names('limits', 'limit'), ['age 399', 'age 31', 'age 29', 'age 0']);
  assert.deepEqual(names('refused callers', 'caller'), ['age 29', 'age 0']);
  const hours = await queue.between(0, Date.now() + dayMs);
  assert.deepEqual(
    hours.map(hour => hour.mostRunning),
    [399, 31, 29, 0],
  );
});

test('a metric of durations gets each as it was', async () => {
  const registry = new Registry();
  const tally = withMetrics(noTally, registry);
  const labels = { recipe: 'conda', phase: 'running' } as const;
  for (const ms of [1234, 4321]) tally.observe('build times', labels, ms);
  tally.add('build results', { recipe: 'conda', result: 'time limit' }, 2);
  const text = await registry.metrics();
  assert.match(text, /^sluice_build_seconds_sum\{recipe="conda",phase="running"\} 5\.555$/m);
  assert.match(text, /^sluice_build_results_total\{recipe="conda",result="time limit"\} 2$/m);
});

test('durations are counted by their bucket, and labels with any text stay apart', async () => {
  const counts = createDayCountStore(openDatabase(':memory:'), () => Date.parse('2026-01-01'));
  const ofDay = (kind: 'build results' | 'build times') => counts.ofDay(kind, '2026-01-01');
  for (const ms of [100, 100.5, 90_000]) {
    counts.observe('build times', { recipe: 'conda', phase: 'running' }, ms);
  }
  const labels = { recipe: 'conda', phase: 'running' };
  assert.deepEqual(await ofDay('build times'), [
    { labels: { ...labels, bucket: String(bucketOf(100)) }, count: 2 },
    { labels: { ...labels, bucket: String(bucketOf(90_000)) }, count: 1 },
  ]);
  const odd = [
    { recipe: 'a b', result: 'c' },
    { recipe: 'a', result: 'b c' },
    { recipe: '"\n\0\ud800', result: '{}' },
  ];
  for (const one of odd) counts.add('build results', one);
  await counts.flush();
  assert.deepEqual(
    (await ofDay('build results'))
      .map(one => one.labels)
      .sort((a, b) => (a.recipe < b.recipe ? 1 : -1)),
    odd.toSorted((a, b) => (a.recipe < b.recipe ? 1 : -1)),
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
