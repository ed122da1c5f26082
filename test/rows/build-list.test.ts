/** Lists of builds: their order, their filters, and the rows that a page reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Builds } from '../../src/builds/builds.ts';
import { listBuilds } from '../../src/http/api/builds/build-list.ts';
import { type Database, openDatabase } from '../../src/storage/rows/database.ts';
import { createBuildListStore } from '../../src/storage/rows/images/build-rows.ts';
import type { BuildRow } from '../../src/storage/rows/index.ts';

const builds = 3000;
const logs = { steps: async () => undefined } as never;

function filled(): Database {
  const database = openDatabase(':memory:');
  const insert = database.prepare(
    `INSERT INTO builds (id, build_key, number, target, plan, owner, created_at, finished_at, succeeded)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  for (let at = 1; at <= builds; at += 1) {
    const plan = { origin: { kind: 'recipe', recipe: 'conda', platforms: ['linux/amd64'] } };
    const owner = at % 3 === 0 ? 'one' : 'other';
    const succeeded = at === builds ? null : at % 2;
    const ended = succeeded === null ? null : at;
    insert.run(
      `b_${at}`,
      'b',
      at,
      `host/r:t${at}`,
      JSON.stringify(plan),
      owner,
      at,
      ended,
      succeeded,
    );
  }
  return database;
}

test('pages of a list of builds follow each other without gaps, for each form of the query', async () => {
  const isOf: Builds['isOf'] = (build, caller) => build.owner === caller.owner;
  const sources = {
    buildList: createBuildListStore(filled()),
    logs,
    builds: { get: async () => ({ reason: 'RUN failed' }) as BuildRow, isOf },
  };
  const forms = [
    [undefined, {}, builds],
    [undefined, { state: 'failed' }, builds / 2 - 1],
    [undefined, { state: 'queued' }, 1],
    ['one', {}, builds / 3],
    ['one', { state: 'succeeded' }, builds / 6],
    [undefined, { target: 'R:T7' }, 111],
    [undefined, { kind: 'image' }, 0],
  ] as const;
  for (const [owner, filter, count] of forms) {
    const caller = owner === undefined ? undefined : { owner, limits: '' };
    const ids: string[] = [];
    let pages = 0;
    for (let before: number | undefined; ; pages += 1) {
      const list = await listBuilds(caller, { ...filter, before }, sources);
      assert.ok(list.builds.length <= 25);
      for (const { state, reason } of list.builds) {
        assert.equal(reason, state === 'failed' ? 'RUN failed' : undefined);
      }
      ids.push(...list.builds.map(({ id }) => id));
      before = list.next;
      if (before === undefined) break;
      assert.ok(pages < 200, 'the pages end');
    }
    assert.equal(ids.length, count, JSON.stringify([owner, filter]));
    assert.equal(new Set(ids).size, count);
    const numbers = ids.map(id => Number(id.slice(2)));
    assert.deepEqual(
      numbers,
      numbers.toSorted((one, other) => other - one),
    );
  }
});

test('no list of builds sorts rows or reads the table without an index', () => {
  const database = filled();
  const forms = [
    ['owner = 1 AND', 'builds_by_owner'],
    ['succeeded IS 1 AND', 'builds_by_result'],
    ['owner = 1 AND succeeded IS 1 AND', 'builds_by_owner_and_result'],
  ] as const;
  for (const [where, index] of forms) {
    const plan = database
      .prepare(
        `EXPLAIN QUERY PLAN SELECT id FROM builds WHERE ${where} rowid < 9 ORDER BY rowid DESC LIMIT 9`,
      )
      .all() as { detail: string }[];
    const text = plan.map(({ detail }) => detail).join('\n');
    assert.match(text, new RegExp(`USING INDEX ${index} `));
    assert.doesNotMatch(text, /TEMP B-TREE/);
  }
});
