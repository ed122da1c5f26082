/** Work that runs side by side, and work that runs alone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPassage } from '../../src/storage/rows/postgres/postgres-database.ts';

test('work that is alone waits for all others, and no other begins meanwhile', async () => {
  const passage = createPassage();
  const said: string[] = [];
  const work = (name: string) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const run = async () => {
      said.push(`${name} begins`);
      await promise;
      said.push(`${name} ends`);
    };
    return { run, end: resolve };
  };
  const [first, second, lone, other, last] = ['first', 'second', 'lone', 'other', 'last'].map(work);
  assert.ok(first && second && lone && other && last);
  const all = [
    passage.together(first.run),
    passage.together(second.run),
    passage.alone(lone.run),
    passage.alone(other.run),
    passage.together(last.run),
  ];
  for (const one of [last, other, lone, second, first]) one.end();
  await Promise.all(all);
  const [begin, ends] = [said.slice(0, 2), said.slice(2, 4)];
  assert.deepEqual(begin, ['first begins', 'second begins']);
  assert.deepEqual(ends.sort(), ['first ends', 'second ends']);
  for (const name of ['lone', 'other']) {
    assert.equal(said.indexOf(`${name} ends`), said.indexOf(`${name} begins`) + 1, said.join());
  }
  assert.equal(said.length, 10);
});

test('work that fails lets the next one in', async () => {
  const passage = createPassage();
  const fail = () => Promise.reject(new Error('failed'));
  const failed = /failed/;
  const running = [passage.together(fail), passage.alone(fail), passage.alone(fail)];
  await Promise.all(running.map(one => assert.rejects(one, failed)));
  assert.equal(await passage.together(async () => 1), 1);
  assert.equal(await passage.alone(async () => 2), 2);
});
