import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import pg from 'pg';
import type { Fault } from '../../src/foundation/fault.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { openPostgres } from '../../src/storage/rows/postgres/postgres-database.ts';
import { postgresText } from '../../src/storage/rows/postgres/postgres-statements.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { storeStatements } from './store-statements.ts';

suite('the schema of PostgreSQL', () => {
  let postgres: Postgres;
  let url: string;
  let client: pg.Client;

  before(async () => {
    postgres = await startPostgres();
    url = await postgres.createDatabase();
    client = new pg.Client(url);
    await client.connect();
    const name = new URL(url).pathname.slice(1);
    for (const setting of [
      "default_transaction_isolation = 'serializable'",
      "lock_timeout = '1ms'",
    ]) {
      await client.query(`ALTER DATABASE ${name} SET ${setting}`);
    }
    // One of them migrates, the others wait for it, whatever the defaults of the database are.
    const opened = await Promise.all([1, 2, 3].map(() => openPostgres(url)));
    await Promise.all(opened.map(({ end }) => end()));
  });
  after(async () => {
    await client?.end();
    await postgres?.[Symbol.asyncDispose]();
  });

  test('has the tables and columns of SQLite', async () => {
    const sqlite = openDatabase(':memory:');
    const inSqlite = sqlite
      .prepare(
        `SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
         WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`,
      )
      .pluck()
      .all() as string[];
    const { rows } = await client.query(
      `SELECT table_name || '.' || column_name AS name FROM information_schema.columns
       WHERE table_schema = 'public' AND table_name NOT IN ('sluice_schema', 'leader', 'lock_holder', 'next_leader', 'replicas')
         AND column_name <> 'rowid'`,
    );
    const inPostgres = rows.map(({ name }) => String(name));
    assert.ok(inSqlite.length > 100);
    assert.deepEqual(inPostgres.sort(), inSqlite.sort());
  });

  test('is known to every statement of every store', async () => {
    let count = 0;
    for (const { file, statements } of await storeStatements(openDatabase(':memory:'))) {
      for (const statement of statements) {
        count += 1;
        const prepare = client.query(`PREPARE s${count} AS ${postgresText(statement).text}`);
        await prepare.catch(error => assert.fail(`${file}: ${error.message}: ${statement}`));
      }
    }
    assert.ok(count > 200, `only ${count} statements were found`);
  });

  test('of a newer version is refused', async () => {
    await client.query('UPDATE sluice_schema SET version = version + 1');
    await assert.rejects(openPostgres(url), /start the newer version that wrote it/);
    await client.query('UPDATE sluice_schema SET version = version - 1');
  });

  test('of a development version is refused, and stays as it is', async () => {
    const old = await postgres.createDatabase();
    const administrator = new pg.Client(old);
    await administrator.connect();
    await administrator.query(
      'CREATE TABLE schema_version (version BIGINT); INSERT INTO schema_version VALUES (8)',
    );
    await assert.rejects(
      openPostgres(old),
      /development version .* name an empty one with SLUICE_DATABASE/,
    );
    const { rows } = await administrator.query(
      "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
    );
    await administrator.end();
    assert.deepEqual(rows, [{ table_name: 'schema_version' }]);
  });

  test('cannot be read where no server is, and the message has no password', async () => {
    const address = new URL(url);
    address.username = 'sluice';
    address.password = 'a-word-for-nobody';
    address.port = '1';
    await assert.rejects(
      openPostgres(address.href),
      (error: Fault) => error.status === 503 && !error.message.includes('a-word-for-nobody'),
    );
  });
});
