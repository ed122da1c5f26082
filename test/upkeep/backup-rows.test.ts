/** The rows of a database that others write to without a pause. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { copyRows } from '../../src/storage/rows/file/rows-upkeep.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const patienceMs = 10_000;

test('rows are copied as of one moment while a server writes, readable for their owner only', async () => {
  await using directory = await makeTempDir('backup-rows');
  const path = directory.join('sluice.db');
  const server = openDatabase(path, {});
  server.exec('CREATE TABLE ballast (bytes BLOB)');
  const add = server.sql('INSERT INTO ballast VALUES (randomblob(?))');
  await server.write(function* () {
    for (let at = 0; at < 80; at += 1) yield* add.run(1_000_000);
  });
  const target = directory.join('backup');
  await mkdir(target);
  // What an interrupted backup has left.
  for (const end of ['', '-journal', '-wal']) {
    await writeFile(`${target}/sluice.db.new${end}`, 'something else');
  }

  const command = openDatabase(path);
  const began = performance.now();
  const seen = new Set<number>();
  let isOver = false;
  const writing = (async () => {
    while (!isOver && performance.now() - began < patienceMs) {
      const found = statSync(`${target}/sluice.db.new`, { throwIfNoEntry: false });
      if (found && found.size > 1_000_000) seen.add(found.mode & 0o777);
      await server.write(() => add.run(10));
    }
  })();
  await copyRows(command, target);
  isOver = true;
  await writing;
  assert.ok(performance.now() - began < patienceMs, 'the copy did not begin again and again');
  assert.deepEqual([...seen], [0o600]);
  assert.deepEqual(await readdir(target), ['sluice.db']);
  const copy = openDatabase(`${target}/sluice.db`);
  assert.equal(copy.pragma('integrity_check', { simple: true }), 'ok');
  copy.close();

  const late = copyRows(command, target, 0);
  await assert.rejects(late, /could not be copied to .* write the backup to a faster disk/);
  assert.deepEqual(await readdir(target), ['sluice.db'], 'the earlier copy stays');
  // The log can begin again.
  assert.equal(command.inTransaction, false);
  command.close();
  await server.end();
});
