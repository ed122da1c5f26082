import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { startChores } from '../../src/server/upkeep/chores.ts';
import { eventually } from '../world/eventually.ts';

function memoryLog() {
  const lines: { msg: string; chore: string; failures: number }[] = [];
  const log = createLogger('info', { write: line => void lines.push(JSON.parse(line)) });
  return { log, lines };
}

test('chores run independently: one that throws or rejects stops neither the others nor its own next run', async () => {
  const { log, lines } = memoryLog();
  const noted = new Set<string>();
  const turns = { throwing: 0, rejecting: 0, well: 0 };
  const chores = startChores(
    [
      {
        name: 'throwing',
        everyMs: 2,
        atStart: true,
        run() {
          turns.throwing += 1;
          if (turns.throwing <= 3) throw new Error('the disk is full');
        },
      },
      {
        name: 'rejecting',
        everyMs: 2,
        async run() {
          turns.rejecting += 1;
          throw new Error('the database is locked');
        },
      },
      {
        name: 'well',
        everyMs: 2,
        atStart: true,
        run() {
          turns.well += 1;
        },
      },
    ],
    log,
    (name, result) => noted.add(`${name} ${result}`),
  );
  assert.ok(turns.throwing === 1 && turns.well === 1, 'some run at the start');
  await eventually('each had its turns', () => Object.values(turns).every(count => count > 10));
  await chores.stop();
  const results = ['rejecting failed', 'throwing done', 'throwing failed', 'well done'];
  assert.deepEqual([...noted].sort(), results);
  const told = lines.map(({ msg, chore }) => `${chore}: ${msg}`);
  // Once a minute at most, however often they fail.
  assert.deepEqual(told.sort(), [
    'rejecting: regular work failed: the server will retry it',
    'throwing: regular work failed: the server will retry it',
    'throwing: regular work succeeds again',
  ]);
});

test('a chore never runs twice at once, and a stop waits for it', async () => {
  const { log } = memoryLog();
  const { promise, resolve } = Promise.withResolvers<void>();
  let begun = 0;
  let isDone = false;
  const slow = async () => {
    begun += 1;
    await promise;
    isDone = true;
  };
  let turns = 0;
  const quick = {
    name: 'quick',
    everyMs: 1,
    run() {
      turns += 1;
    },
  };
  const chores = startChores([{ name: 'slow', everyMs: 1, run: slow }, quick], log, () => {});
  await eventually('much time has passed', () => turns > 20);
  assert.equal(begun, 1);
  const stopped = chores.stop();
  resolve();
  await stopped;
  assert.ok(isDone);
});
