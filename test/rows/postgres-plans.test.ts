/** How PostgreSQL finds the rows of each statement when its tables are large. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type pg from 'pg';
import { openDatabase } from '../../src/storage/rows/database.ts';
import {
  connectionOf,
  createPostgresPool,
} from '../../src/storage/rows/postgres/postgres-connection.ts';
import { postgresText } from '../../src/storage/rows/postgres/postgres-statements.ts';
import { fillDatabase, moveToPostgres } from '../world/many-rows.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { storeStatements } from './store-statements.ts';

const many = 20_000;
const large = 1000;
// Its statements run before a server answers.
const excepted = /\/identity-rows\.ts$/;

suite('plans of PostgreSQL', () => {
  let postgres: Postgres;
  let pool: pg.Pool;
  let client: pg.PoolClient;
  let largeTables: ReadonlySet<string>;

  before(async () => {
    await using directory = await makeTempDir('postgres-plans');
    postgres = await startPostgres();
    const path = directory.join('sluice.db');
    const file = openDatabase(path, {});
    // Two repositories have most of the content, and 20,000 have little: no row is where an average would be.
    fillDatabase(file, {
      ...{ endedRequests: many, liveRequests: many, hostedBlobs: many, orphans: many },
      ...{ cachedBlobs: many, contents: many, packageLayers: large, endedBuilds: many },
      ...{ repositories: many, tags: many, pulls: many, usage: many, dayCounts: many },
    });
    await file.end();
    const url = await postgres.createDatabase();
    await moveToPostgres(path, url);
    const connections = createPostgresPool(connectionOf(url));
    pool = connections.pool;
    client = await connections.connect();
    const { rows } = await client.query(
      `SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples >= ${large}`,
    );
    largeTables = new Set(rows.map(({ relname }) => String(relname)));
    await client.query('SET plan_cache_mode = force_generic_plan');
  });
  after(async () => {
    client?.release();
    await pool?.end();
    await postgres?.[Symbol.asyncDispose]();
  });

  /** Returns the plan of a statement with any values, and pages of 32 rows. */
  const planOf = async (statement: string): Promise<string[]> => {
    const { text } = postgresText(statement.replace(/LIMIT (\?|@\w+)/g, 'LIMIT 32'));
    const values = Array.from(new Set(text.match(/\$\d+/g)), () => 'NULL').join();
    await client.query(`PREPARE planned AS ${text}`);
    const { rows } = await client.query(`EXPLAIN EXECUTE planned${values && `(${values})`}`);
    await client.query('DEALLOCATE planned');
    return rows.map(row => String(row['QUERY PLAN']));
  };

  /**
   * Returns the lines of a plan that read a large table from its beginning, unless they follow an order to a limit, or
   * an index of the few builds that have not ended.
   */
  const wholeReads = (plan: readonly string[]): string[] =>
    plan.filter((line, at) => {
      const [, table = ''] = / on (\w+)/.exec(line) ?? [];
      const isCompared = /(?:Index|Recheck) Cond/.test(plan[at + 1] ?? '');
      const isPage = /^ *-> {2}Index.*Scan/.test(line) && plan[at - 1]?.includes('Limit');
      const isOfFew = line.includes('using builds_unfinished on');
      return /Scan/.test(line) && largeTables.has(table) && !isCompared && !isPage && !isOfFew;
    });

  test('no statement of a store reads a large table from its beginning', async () => {
    assert.ok(largeTables.size >= 10, [...largeTables].join());
    const wasteful: object[] = [];
    let count = 0;
    for (const { file, statements } of await storeStatements(openDatabase(':memory:'))) {
      if (excepted.test(file)) continue;
      for (const statement of statements) {
        count += 1;
        const plan = await planOf(statement);
        const isHashed = plan.some(line => line.includes('hashed SubPlan'));
        if (isHashed || wholeReads(plan).length > 0) wasteful.push({ file, statement, plan });
      }
    }
    assert.ok(count > 200, `only ${count} statements were found`);
    assert.deepEqual(wasteful, []);
  });

  test('a statement that reads a large table from its beginning is found', async () => {
    for (const statement of [
      'SELECT COUNT(*) FROM requests WHERE body = ?',
      'SELECT digest, EXISTS (SELECT 1 FROM hosted_manifests m WHERE m.digest = c.digest) FROM contents c WHERE digest > ? LIMIT ?',
    ]) {
      const plan = await planOf(statement);
      assert.ok(wholeReads(plan).length > 0, plan.join('\n'));
    }
  });
});
