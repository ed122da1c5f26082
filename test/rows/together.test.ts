/** Statements and changes, whose results are the same however they travel: SQLite, and PostgreSQL with its round trips. */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { openPostgres } from '../../src/storage/rows/postgres/postgres-database.ts';
import {
  atLast,
  type RowDatabase,
  type RowsWork,
  together,
} from '../../src/storage/rows/row-database.ts';
import { startDistantProxy } from '../world/distant-proxy.ts';
import { startPostgres } from '../world/postgres.ts';

const postgres = await startPostgres();
const proxy = await startDistantProxy(await postgres.createDatabase(), 1);
const far = await openPostgres(proxy.url);
after(async () => {
  await far.end();
  await proxy[Symbol.asyncDispose]();
  await postgres[Symbol.asyncDispose]();
});

const databases: readonly (readonly [name: string, open: () => RowDatabase])[] = [
  ['SQLite', () => openDatabase(':memory:')],
  ['PostgreSQL', () => far],
];

for (const [name, open] of databases) {
  suite(`changes in ${name}`, () => {
    const database = open();
    const put = database.sql(
      `INSERT INTO sums (name, value) VALUES (?, ?)
       ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    );
    const add = database.sql('INSERT INTO sums (name, value) VALUES (?, ?)');
    const find = database.sql('SELECT value FROM sums WHERE name = ?').pluck<number>();
    const value = async (name: string) => {
      const found = await database.read(find.get(name));
      return found === undefined ? undefined : Number(found);
    };

    test('what runs together has its own results, in the same order', async () => {
      function* twice(name: string): RowsWork<number> {
        const before = Number((yield* find.get(name)) ?? 0);
        yield* put.run(name, before + 1);
        return before;
      }
      const nothing = () => together([]);
      const change = () =>
        together([
          put.run('one', 1),
          together([twice('two'), nothing(), twice('three')]),
          find.get('none'),
          put.hasChanged('four', 4),
          together([]),
        ]);
      const results = [undefined, [0, [], 0], undefined, true, []];
      assert.deepEqual(await database.write(change), results);
      assert.deepEqual(await Promise.all(['one', 'two', 'three', 'four'].map(value)), [1, 1, 1, 4]);
      const read = await database.read(together([find.get('one'), nothing(), find.get('four')]));
      assert.deepEqual(read.map(String), ['1', '', '4']);
    });

    test('an error undoes all, and the next change finds the database usable', async () => {
      await database.write(() => put.run('taken', 1));
      for (const change of [
        () => together([put.run('taken', 2), add.run('taken', 3), put.run('after', 4)]),
        () => add.run('taken', 5),
        () => atLast([put.run('taken', 8), add.run('taken', 9), put.run('after', 4)]),
        function* () {
          yield* put.run('taken', 6);
          throw new Error('of the caller');
        },
      ]) {
        await assert.rejects(database.write<unknown>(change));
        assert.deepEqual([await value('taken'), await value('after')], [1, undefined]);
      }
      await database.commit(() => put.run('taken', 7));
      assert.equal(await value('taken'), 7);
    });

    test('the last statements of a change have their results', async () => {
      function* change(): RowsWork<readonly [unknown, boolean]> {
        yield* put.run('first', 1);
        return yield* atLast([find.get('first'), put.hasChanged('last', 2)]);
      }
      const [found, isChanged] = await database.write(change);
      assert.deepEqual([Number(found), isChanged], [1, true]);
      assert.deepEqual([await value('first'), await value('last')], [1, 2]);
    });

    test('simultaneous changes of a row follow each other', async () => {
      await database.write(() => put.run('count', 0));
      const increase = database.sql('UPDATE sums SET value = value + 1 WHERE name = ?');
      const changes = Array.from({ length: 40 }, (_, at) =>
        database.write(
          [() => increase.hasChanged('count'), readAndPut, readAndPutLast][at % 3] ?? readAndPut,
        ),
      );
      function* readAndPut(): RowsWork<boolean> {
        const count = Number(yield* find.get('count'));
        yield* put.run('count', count + 1);
        return true;
      }
      function* readAndPutLast(): RowsWork<boolean> {
        const count = Number(yield* find.get('count'));
        yield* atLast([put.run('count', count + 1)]);
        return true;
      }
      assert.ok((await Promise.all(changes)).every(Boolean));
      assert.equal(await value('count'), 40);
    });
  });
}

test('what needs no answer costs PostgreSQL no round trip', async () => {
  const put = far.sql('UPDATE sums SET value = ? WHERE name = ?');
  const find = far.sql('SELECT value FROM sums WHERE name = ?');
  const trips = async (work: () => Promise<unknown>) => {
    proxy.next();
    await work();
    return proxy.next().length;
  };
  const calls = [put.run(1, 'one'), put.run(2, 'two'), put.run(3, 'three')];
  await far.write(() => together(calls));
  assert.equal(await trips(() => far.commit(() => put.run(1, 'one'))), 1);
  assert.equal(await trips(() => far.write(() => together(calls))), 2);
  assert.equal(await trips(() => far.write(() => atLast(calls))), 1);
  const readAndPut = function* () {
    yield* find.get('one');
    yield* atLast(calls);
  };
  assert.equal(await trips(() => far.write(readAndPut)), 2);
  assert.equal(await trips(() => far.read(together(calls))), 1);
  const one = function* () {
    for (const call of calls) yield* call;
  };
  assert.equal(await trips(() => far.write(one)), 4);
  assert.equal(await trips(() => far.write(() => together([]))), 0);
  assert.equal(await trips(() => far.write(() => atLast([]))), 0);
});

test('no statement follows the last ones of a change', async () => {
  const put = far.sql('UPDATE sums SET value = ? WHERE name = ?');
  const two = function* () {
    for (let step = 1; step <= 2; step += 1) yield* put.run(step, 'one');
  };
  await assert.rejects(
    far.write(() => atLast([two()])),
    /must be single statements/,
  );
  const wrong = function* () {
    yield* atLast([put.run(1, 'one')]);
    yield* put.run(2, 'one');
  };
  await assert.rejects(far.write(wrong), /follows the last ones/);
});
