import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PostgresCall } from '../../src/storage/rows/postgres/postgres-statements.ts';
import { postgresStatement } from '../../src/storage/rows/postgres/postgres-statements.ts';
import { createSharedReads } from '../../src/storage/rows/postgres/shared-reads.ts';
import type { Sent, StatementResults } from '../../src/storage/rows/row-database.ts';

const statement = postgresStatement<{ readonly key: string }>('SELECT key FROM t WHERE key = ?');
const find = (key: string) =>
  statement.get(key) as PostgresCall<{ readonly key: string } | undefined>;

/** A database whose responses wait. */
function slowDatabase() {
  const sent: {
    readonly keys: readonly string[];
    readonly answer: () => void;
    fail: () => void;
  }[] = [];
  const read = createSharedReads((calls: Sent) => {
    const { promise, resolve, reject } = Promise.withResolvers<StatementResults>();
    const keys = (calls as readonly PostgresCall<unknown>[]).map(({ values }) => String(values[0]));
    const results = keys.map(key => ({ rows: [{ key }], changes: 1 }));
    sent.push({ keys, answer: () => resolve(results), fail: () => reject(new Error('broken')) });
    return promise;
  });
  return { sent, read };
}

const turns = async (isDone: () => boolean) => {
  while (!isDone()) await turn();
};
const turn = () => new Promise(resolve => setImmediate(resolve));

test('statements of one moment, and those that arrive while others run, are sent together, and the same one once', async () => {
  const { sent, read } = slowDatabase();
  const all = ['a', 'b'].map(key => read(find(key)));
  await turn();
  all.push(...['c', 'd', 'c'].map(key => read(find(key))));
  await turn();
  assert.deepEqual(
    sent.map(({ keys }) => keys),
    [['a', 'b']],
  );
  all.push(read(find('a')));
  // A database that is far away carries two batches.
  await turns(() => sent.length > 1);
  assert.deepEqual(sent[1]?.keys, ['c', 'd', 'a']);
  const last = read(find('e'));
  await turn();
  assert.equal(sent.length, 2);
  sent[0]?.answer();
  await turns(() => sent.length > 2);
  for (const { answer } of sent) answer();
  const found = await Promise.all(all);
  assert.deepEqual(
    found.map(row => row?.key),
    ['a', 'b', 'c', 'd', 'c', 'a'],
  );
  assert.equal((await last)?.key, 'e');
});

test('a statement does not get the response to one that was sent before', async () => {
  const { sent, read } = slowDatabase();
  const first = read(find('a'));
  await turn();
  const second = read(find('a'));
  await turns(() => sent.length > 1);
  assert.equal(sent.length, 2);
  sent[1]?.fail();
  await assert.rejects(second, /broken/);
  sent[0]?.answer();
  assert.equal((await first)?.key, 'a');
  const third = read(find('a'));
  await turns(() => sent.length > 2);
  sent[2]?.answer();
  assert.equal((await third)?.key, 'a');
});
