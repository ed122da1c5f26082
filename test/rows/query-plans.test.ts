import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Database, openDatabase } from '../../src/storage/rows/database.ts';
import { wastefulLookups } from './index-use.ts';
import { storeStatements } from './store-statements.ts';

// Their statements run before a server answers, for a command, or on a table of one row.
const excepted = /\/(?:identity-rows|secret-box)\.ts$/;

function planOf(database: Database, sql: string): string[] {
  // How a statement is planned does not depend on the values.
  const text = sql.replace(/@\w+|\?/g, '1');
  const rows = database.prepare(`EXPLAIN QUERY PLAN ${text}`).all() as { detail: string }[];
  return rows.map(({ detail }) => detail);
}

// Pages of a whole list end with their limit: they are in the order of an index.
const isPage = (sql: string, plan: readonly string[]) =>
  sql.includes('LIMIT') && !plan.some(detail => detail.startsWith('USE TEMP B-TREE'));

test('every statement of every store finds its rows by an index', async () => {
  const database = openDatabase(':memory:');
  let count = 0;
  const scans: object[] = [];
  for (const { file, statements } of await storeStatements(database)) {
    if (excepted.test(file)) continue;
    for (const sql of statements) {
      count += 1;
      const plan = planOf(database, sql);
      const scan = plan.find(detail => /\bSCAN\b/.test(detail) && !detail.includes('CONSTANT ROW'));
      if (scan !== undefined && !isPage(sql, plan)) scans.push({ file, sql, plan });
    }
  }
  assert.ok(count > 80, `only ${count} statements were found`);
  assert.deepEqual(scans, []);
});

test('every statement uses all values that an index has for it', async () => {
  const database = openDatabase(':memory:');
  const wasteful: object[] = [];
  let judged = 0;
  for (const { file, statements } of await storeStatements(database)) {
    for (const sql of statements) {
      const plan = planOf(database, sql);
      const lookups = wastefulLookups(database, sql, plan);
      const unused = plan.map(detail => detail.replaceAll('=?', '>?'));
      judged += wastefulLookups(database, sql, unused).length;
      if (lookups.length > 0) wasteful.push({ file, sql, lookups });
    }
  }
  assert.ok(judged > 200, `only ${judged} lookups were judged`);
  assert.deepEqual(wasteful, []);
});

test('a statement that reads all manifests of a repository for one subject is found', async () => {
  const database = openDatabase(':memory:');
  // SQLite prefers the order of the digests, as long as it needs further columns.
  const sql = `SELECT digest, artifact_type FROM hosted_manifests
    WHERE repository = (SELECT id FROM repositories WHERE name = ?) AND subject = ? AND digest > ?
    ORDER BY digest LIMIT ?`;
  const plan = planOf(database, sql);
  assert.ok(
    plan.some(detail => detail.includes('(repository=? AND digest>?)')),
    plan.join(),
  );
  assert.equal(wastefulLookups(database, sql, plan).length, 1);
  const scan = ['SCAN hosted_manifests USING INDEX hosted_manifests_by_subject'];
  assert.equal(wastefulLookups(database, sql, scan).length, 1);
});

test('referrers are found by their subject, not among all manifests of a repository', async () => {
  const database = openDatabase(':memory:');
  const found = (await storeStatements(database))
    .flatMap(({ statements }) => statements)
    .filter(sql => sql.includes('hosted_manifests') && / subject = \?/.test(sql));
  assert.ok(found.length > 0);
  for (const sql of found) {
    assert.match(
      planOf(database, sql).join('\n'),
      /INDEX hosted_manifests_by_subject \(repository=\? AND subject=\? AND digest>\?\)/,
    );
  }
});
