import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readGathered } from '../../src/storage/rows/postgres/gathered-reads.ts';
import { openPostgresReader } from '../../src/storage/rows/postgres/postgres-reader.ts';
import {
  PostgresCall,
  postgresStatement,
} from '../../src/storage/rows/postgres/postgres-statements.ts';
import type { Sent, StatementResults } from '../../src/storage/rows/row-database.ts';
import { startPostgres } from '../world/postgres.ts';

const byKey = postgresStatement<{ readonly keyName: string }>(
  "SELECT v AS keyName, '$' AS sign FROM (VALUES ('a'), ('b'), ('it''s {\",}')) t(v) WHERE v = ?",
);
const calls = (...keys: string[]) => keys.map(key => byKey.get(key) as PostgresCall<unknown>);

test('statements that read one row by one key are sent as one, and others as they are', async () => {
  const sent: string[] = [];
  const send = async (all: Sent): Promise<StatementResults> => {
    for (const call of all) if (call instanceof PostgresCall) sent.push(call.text);
    return [
      { rows: [{ keyName: 'b', gathered_place: 2 }], changes: 1 },
      { rows: [{ one: 1 }], changes: 1 },
    ];
  };
  const list = postgresStatement('SELECT 1 AS one WHERE ? = 1').all(1) as PostgresCall<unknown>;
  const [first, second] = calls('z', 'b');
  assert.ok(first && second);
  const results = await readGathered(send, [first, list, second]);
  assert.equal(sent.length, 2);
  assert.deepEqual(
    results.map(({ rows }) => rows.length),
    [0, 1, 1],
  );
});

test('PostgreSQL gives each key its own row', async () => {
  await using postgres = await startPostgres();
  const reader = openPostgresReader(await postgres.createDatabase());
  const bytes = postgresStatement<Buffer>(
    "SELECT v FROM (VALUES ('\\x00ff'::bytea), ('\\x5c22')) t(v) WHERE v = ? ORDER BY v LIMIT 1",
  ).pluck<Buffer>();
  const number = postgresStatement('SELECT ? + 1 AS more');
  const [texts, found, sum] = await Promise.all([
    Promise.all(['b', 'none', 'it\'s {",}', 'a', '\0'].map(key => reader.read(byKey.get(key)))),
    Promise.all(['5c22', '00ff', '01'].map(hex => reader.read(bytes.get(Buffer.from(hex, 'hex'))))),
    reader.read(number.get(1)),
  ]);
  assert.deepEqual(
    texts.map(row => row?.keyName),
    ['b', undefined, 'it\'s {",}', 'a', undefined],
  );
  assert.deepEqual(
    found.map(value => value?.toString('hex')),
    ['5c22', '00ff', undefined],
  );
  assert.deepEqual(sum && { ...sum }, { more: 2 });
  await reader.end();
});
