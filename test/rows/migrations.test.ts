/** How the schema of SQLite is brought up to date: with a second step that is made up. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { migrateSqlite } from '../../src/storage/rows/file/sqlite-migrations.ts';
import { sqliteMigrations } from '../../src/storage/rows/file/sqlite-schema.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const addUser = "INSERT INTO users (email, created_at) VALUES ('a@example.org', 1)";
const second = 'ALTER TABLE users ADD COLUMN colour TEXT; UPDATE users SET colour = email';
const steps = [...sqliteMigrations, second];
const versionOf = (database: ReturnType<typeof openDatabase>) =>
  database.pragma('user_version', { simple: true });

test('a later step of the schema keeps the rows, and is taken once', async () => {
  await using directory = await makeTempDir('migrations');
  const [one, other] = [1, 2].map(() => openDatabase(directory.join('sluice.db')));
  assert.ok(one && other);
  one.exec(addUser);
  // Taken a second time, it would fail.
  for (const database of [one, other, one]) migrateSqlite(database, steps);
  assert.equal(versionOf(other), steps.length);
  assert.equal(other.prepare('SELECT colour FROM users').pluck().get(), 'a@example.org');
  await Promise.all([one.end(), other.end()]);
  assert.throws(
    () => openDatabase(directory.join('sluice.db')),
    /has schema 2, .* up to 1: start the newer version that wrote it/,
  );
});

test('a step that fails in the middle changes nothing', async () => {
  const database = openDatabase(':memory:');
  database.exec(addUser);
  const failing = [...sqliteMigrations, `${second}; INSERT INTO absent VALUES (1)`];
  assert.throws(() => migrateSqlite(database, failing), /no such table: absent/);
  assert.equal(versionOf(database), sqliteMigrations.length);
  migrateSqlite(database, steps);
  assert.equal(database.prepare('SELECT colour FROM users').pluck().get(), 'a@example.org');
});

test('a file of a development version is refused, and stays as it is', async () => {
  await using directory = await makeTempDir('migrations');
  for (const version of [1, 26]) {
    const path = directory.join(`${version}.db`);
    const database = openDatabase(path);
    database.pragma('application_id = 0');
    database.pragma(`user_version = ${version}`);
    await database.end();
    const before = await readFile(path);
    assert.throws(
      () => openDatabase(path),
      ({ message }: Error) =>
        message.includes(`${path} was written by a development version`) &&
        message.includes('set SLUICE_DATA to an empty directory'),
    );
    assert.ok(before.equals(await readFile(path)));
  }
});
