import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clocksOf, createSteadyClock } from '../../src/server/upkeep/steady-clock.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import {
  type ClockReading,
  type ClockReadingStore,
  createClockReadingStore,
} from '../../src/storage/rows/file/identity-rows.ts';
import { eventually } from '../world/eventually.ts';

const hour = 3_600_000;
const day = 24 * hour;
const year = 365 * day;

/** A machine with both clocks, and a server on it. */
function machine() {
  const store = createClockReadingStore(openDatabase(':memory:'));
  const clocks = { wall: Date.UTC(2026, 0, 1), elapsed: 5 * day };
  const clock = createSteadyClock(store, {
    wall: () => clocks.wall,
    elapsed: () => clocks.elapsed,
  });
  const pass = (ms: number) => {
    clocks.wall += ms;
    clocks.elapsed += ms;
    return clock.look();
  };
  return { clocks, clock, pass, reading: async () => (await store.read()) as ClockReading };
}

test('time that passes is not a jump, however long nobody checks', async () => {
  const { clock, pass } = machine();
  assert.deepEqual(await clock.look(), { isSteady: true, jumpMs: undefined });
  for (const ms of [1, hour, year]) {
    assert.deepEqual(await pass(ms), { isSteady: true, jumpMs: undefined });
  }
});

test('after a jump ahead, nothing is old for a day', async () => {
  const { clocks, clock, pass } = machine();
  await clock.look();
  clocks.wall += year;
  assert.deepEqual(await pass(0), { isSteady: false, jumpMs: year });
  assert.deepEqual(await pass(hour), { isSteady: false, jumpMs: undefined });
  assert.equal((await pass(22 * hour)).isSteady, false);
  assert.equal((await pass(hour)).isSteady, true);
});

test('a clock that is set back to the right time is trusted at once', async () => {
  const { clocks, clock, pass } = machine();
  await clock.look();
  clocks.wall += year;
  assert.equal((await pass(hour)).isSteady, false);
  clocks.wall -= year;
  assert.deepEqual(await pass(hour), { isSteady: true, jumpMs: -year });
});

test('another process finds the readings of the last one, also after a restart of the machine', async () => {
  const { clocks, clock } = machine();
  await clock.look();
  // Three days off: nothing unusual.
  clocks.wall += 3 * day;
  clocks.elapsed = 60_000;
  assert.equal((await clock.look()).isSteady, true);
  // A machine without a battery for its clock may come up in any year.
  clocks.wall += 5 * year;
  clocks.elapsed = 1000;
  assert.deepEqual(await clock.look(), { isSteady: false, jumpMs: 5 * year });
});

/** Waits until a reading of the wall clock is in the database. */
const stored = (store: ClockReadingStore, wallMs: number) =>
  eventually('the reading is stored', async () => (await store.read())?.wallMs === wallMs);

/** Two machines with one database, whose clock both read. */
function twoMachines() {
  const store = createClockReadingStore(openDatabase(':memory:'));
  const database = { now: Date.UTC(2026, 0, 1) };
  const machineOf = (aheadMs: number) => {
    const wall = () => database.now + aheadMs;
    const clock = createSteadyClock(store, { wall, elapsed: async () => database.now });
    return {
      async look() {
        const state = await clock.look();
        await stored(store, wall());
        return state;
      },
    };
  };
  return { database, machineOf };
}

test('another machine takes over at the right time, however long each has been up', async () => {
  const { database, machineOf } = twoMachines();
  await machineOf(0).look();
  for (const ms of [1000, year]) {
    database.now += ms;
    assert.deepEqual(await machineOf(1000).look(), { isSteady: true, jumpMs: undefined });
  }
});

test('a machine that takes over with a clock a day ahead deletes nothing for a day', async () => {
  const { database, machineOf } = twoMachines();
  await machineOf(0).look();
  const ahead = machineOf(day);
  database.now += 60_000;
  assert.deepEqual(await ahead.look(), { isSteady: false, jumpMs: day });
  database.now += hour;
  assert.equal((await ahead.look()).isSteady, false);
  // The next one has the right time.
  assert.equal((await machineOf(0).look()).isSteady, true);
});

test('rows that move to a database with its own clock, and back, bring no jump', async () => {
  const store = createClockReadingStore(openDatabase(':memory:'));
  const wall = () => Date.UTC(2026, 0, 1);
  for (const elapsed of [() => 5 * day, async () => wall(), () => 5 * day]) {
    const clock = createSteadyClock(store, { wall, elapsed });
    assert.deepEqual(await clock.look(), { isSteady: true, jumpMs: undefined });
    const passed = await elapsed();
    const isStored = async () => (await store.read())?.elapsedMs === passed;
    await eventually('the reading is stored', isStored);
  }
});

test('a clock that jumps together with that of a database on this machine is noticed', async () => {
  const start = Date.UTC(2026, 0, 1);
  let [jumped, up] = [0, 5 * day];
  const wall = () => start + jumped + up;
  const store = { read: async () => undefined, write: () => {} };
  const local = { now: () => up, startOffsetMs: start };
  const createClock = () => createSteadyClock(store, { wall, elapsed: async () => wall(), local });
  const clock = createClock();
  await clock.look();
  up += 60_000;
  assert.equal((await clock.look()).isSteady, true);
  jumped = 30 * day;
  assert.deepEqual(await clock.look(), { isSteady: false, jumpMs: 30 * day });
  const { isSteady } = await createClock().look();
  assert.equal(isSteady, false, 'a replica that began to wait before the jump, and leads now');
  up += day + 1;
  assert.deepEqual(await clock.look(), { isSteady: true, jumpMs: undefined });
  jumped = 0;
  assert.deepEqual(await clock.look(), { isSteady: true, jumpMs: -30 * day });
});

test('the difference of the clocks when a process started is known later', () => {
  const { local } = clocksOf({ databaseTime: async () => Date.now() });
  assert.ok(local);
  const changeMs = Date.now() - local.now() - local.startOffsetMs;
  assert.ok(Math.abs(changeMs) < 60_000, `${changeMs} ms`);
});
