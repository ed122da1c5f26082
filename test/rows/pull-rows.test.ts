/** Pulls by subject and day: bounded, written together, kept when the disk refuses them, and without tokens. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { containerSubject } from '../../src/pull/pull-counter.ts';
import type { ContainerToken } from '../../src/request/tokens/container-token.ts';
import { purgeFigures } from '../../src/server/upkeep/chores.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import {
  createDayCountStore,
  createQueueStore,
} from '../../src/storage/rows/figures/count-rows.ts';
import { createPullStore, type PullSubject } from '../../src/storage/rows/figures/usage-rows.ts';

const dayMs = 24 * 3_600_000;
const one = 'repository team/app' as PullSubject;

test('pulls are seen at once, written together, and counted by day', async () => {
  const database = openDatabase(':memory:');
  const clock = { now: Date.parse('2026-01-01T23:59:59Z') };
  const pulls = createPullStore(database, () => clock.now);
  const rows = () => database.prepare('SELECT COUNT(*) FROM pulls').pluck().get();
  pulls.note([one]);
  pulls.note([one]);
  const first = clock.now;
  assert.deepEqual(await pulls.recent(one, '2026-01-01'), { count: 2, lastAt: first });
  assert.equal(rows(), 0);
  clock.now += 2000;
  pulls.note([one, 'repository team/other' as PullSubject]);
  const expected = [
    { day: '2026-01-01', count: 2 },
    { day: '2026-01-02', count: 1 },
  ];
  assert.deepEqual(await pulls.byDay(one, '2026-01-01'), expected);
  await pulls.flush();
  assert.equal(rows(), 3);
  assert.deepEqual(await pulls.byDay(one, '2026-01-01'), expected);
  assert.deepEqual(await pulls.recent(one, '2026-01-02'), { count: 1, lastAt: clock.now });
  assert.deepEqual(await pulls.recent(one, '2026-01-03'), { count: 0, lastAt: clock.now });
  // The clock of the server was set back: the last pull stays the last.
  clock.now = first - 5000;
  pulls.note([one]);
  await pulls.flush();
  assert.deepEqual(await pulls.recent(one, '2026-01-01'), { count: 4, lastAt: first + 2000 });
});

test('a disk that refuses writes loses no pull of the subjects in memory, and fills no memory', async () => {
  const database = openDatabase(':memory:');
  const pulls = createPullStore(database, () => Date.parse('2026-01-01'));
  const flood = (first: number) => {
    for (let at = first; at < first + 60_000; at += 1) pulls.note([`flood ${at}` as PullSubject]);
  };
  pulls.note([one]);
  database.exec('ALTER TABLE pulls RENAME TO away');
  for (let round = 0; round < 3; round += 1) {
    const refused = assert.rejects(pulls.flush(), /no such table/);
    flood(round * 60_000);
    await refused;
  }
  pulls.note([one]);
  database.exec('ALTER TABLE away RENAME TO pulls');
  await pulls.flush();
  assert.equal((await pulls.recent(one, '2026-01-01')).count, 2);
  const rows = Number(database.prepare('SELECT COUNT(*) FROM pulls').pluck().get());
  assert.ok(rows > 10_000 && rows <= 50_000, `${rows} rows`);
});

test('pulls are removed after 400 days, and the last one with them', async () => {
  const database = openDatabase(':memory:');
  const clock = { now: Date.now() };
  const pulls = createPullStore(database, () => clock.now);
  for (const age of [402, 399, 31, 0]) {
    clock.now = Date.now() - age * dayMs;
    pulls.note(age === 402 ? [one, 'repository old' as PullSubject] : [one]);
  }
  await pulls.flush();
  await purgeFigures({
    ...{ dayCounts: createDayCountStore(database), queue: createQueueStore(database) },
    pulls,
  });
  assert.deepEqual(
    (await pulls.byDay(one, '0000-01-01')).map(({ day }) => day),
    [399, 31, 0].map(age => new Date(Date.now() - age * dayMs).toISOString().slice(0, 10)),
  );
  const old = await pulls.recent('repository old' as PullSubject, '0000-01-01');
  assert.deepEqual(old, { count: 0, lastAt: undefined });
});

test('the token of a container is not in the database', async () => {
  const database = openDatabase(':memory:');
  const pulls = createPullStore(database);
  const token = 'abcdefghijklmnopqrstuvwxyz234567' as ContainerToken;
  pulls.note([containerSubject(token)]);
  await pulls.flush();
  assert.equal((await pulls.recent(containerSubject(token), '2026-01-01')).count, 1);
  assert.ok(!database.serialize().includes(token));
});
