import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { test } from 'node:test';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('the directory of a new database is readable for its owner only', async () => {
  await using directory = await makeTempDir('database');
  const made = directory.join('one/two');
  openDatabase(`${made}/sluice.db`).close();
  assert.equal(statSync(made).mode & 0o777, 0o700);
});
