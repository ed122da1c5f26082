import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSteadyClock } from '../../src/server/upkeep/steady-clock.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import type { ClockReading } from '../../src/storage/rows/file/clock-readings.ts';
import { createClockReadingStore } from '../../src/storage/rows/file/clock-readings.ts';

const hour = 3_600_000;
const day = 24 * hour;
const year = 365 * day;

/** A machine with both clocks, and a server on it. */
function machine() {
  const store = createClockReadingStore(openDatabase(':memory:'));
  const clocks = { wall: Date.UTC(2026, 0, 1), uptime: 5 * day };
  const clock = createSteadyClock(store, {
    wall: () => clocks.wall,
    uptime: () => clocks.uptime,
  });
  const pass = (ms: number) => {
    clocks.wall += ms;
    clocks.uptime += ms;
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
  clocks.uptime = 60_000;
  assert.equal((await clock.look()).isSteady, true);
  // A machine without a battery for its clock may come up in any year.
  clocks.wall += 5 * year;
  clocks.uptime = 1000;
  assert.deepEqual(await clock.look(), { isSteady: false, jumpMs: 5 * year });
});
