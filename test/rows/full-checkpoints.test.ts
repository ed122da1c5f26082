/** A disk that is full while the write-ahead log is copied into the database: nothing that was acknowledged is lost. */
import assert from 'node:assert/strict';
import { rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Sqlite from 'better-sqlite3';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { eventually } from '../world/eventually.ts';
import { runProgram } from '../world/program.ts';
import { requireCommand } from '../world/tools.ts';

const self = fileURLToPath(import.meta.url);
const [, , role = '', disk = ''] = process.argv;
const mebibyte = 1024 * 1024;
const diskBytes = 24 * mebibyte;
const leftBytes = 6 * mebibyte;
const mostRows = 5000;

/** Writes rows until the disk is full and the log cannot be copied. Prints the number of those that were acknowledged. */
async function fillUp(): Promise<void> {
  const failures: string[] = [];
  const database = openDatabase(`${disk}/sluice.db`, {
    onFailedCopy: reason => failures.push(reason),
  });
  database.exec('CREATE TABLE filled (n INTEGER PRIMARY KEY, bytes BLOB)');
  const { bsize, bavail } = statfsSync(disk);
  writeFileSync(`${disk}/ballast`, Buffer.alloc(bsize * bavail - leftBytes));
  const insert = database.sql('INSERT INTO filled VALUES (?, zeroblob(3000))');
  let count = 0;
  const isRefused = async () =>
    database
      .write(() => insert.run(count + 1))
      .then(
        () => {
          count += 1;
          return false;
        },
        () => true,
      );
  while (!(await isRefused())) assert.ok(count < mostRows, 'the disk is never full');
  await eventually('the copy fails', () => failures.some(it => /full|I\/O/.test(it)), 20_000);
  // Again with the log that could not be copied.
  await isRefused();
  if (role === 'free') {
    rmSync(`${disk}/ballast`);
    await eventually('rows are written again', async () => !(await isRefused()));
  }
  const log = statSync(`${disk}/sluice.db-wal`).size;
  console.log(JSON.stringify({ count, log }));
  await sleep(100);
  process.kill(process.pid, 'SIGKILL');
}

/** Opens the database of a process that was killed, as the next server does. */
async function reopen(): Promise<void> {
  const plain = new Sqlite(`${disk}/sluice.db`);
  const integrity = plain.pragma('integrity_check', { simple: true });
  const count = plain.prepare('SELECT COUNT(*) FROM filled').pluck().get();
  plain.close();
  console.log(JSON.stringify({ integrity, count }));
}

async function run(how: 'full' | 'free'): Promise<void> {
  const script = `mount -t tmpfs -o size=${diskBytes} tmpfs /mnt && { "$1" "$2" ${how} /mnt; "$1" "$2" reopen /mnt; }`;
  const command = [requireCommand('unshare'), '--mount', 'sh', '-c', script, 'sh'];
  const { stdout, stderr } = await runProgram([...command, process.execPath, self], {
    env: { PATH: process.env.PATH },
  });
  const lines = stdout.split('\n').filter(line => line.startsWith('{'));
  assert.equal(lines.length, 2, stdout + stderr);
  const [written, found] = lines.map(line => JSON.parse(line));
  assert.ok(written.count > 100 && written.log > mebibyte, stdout);
  assert.equal(found.integrity, 'ok');
  // A row whose response was an error may be there.
  assert.ok(found.count >= written.count && found.count <= written.count + 2, stdout);
}

if (role === 'reopen') await reopen();
else if (role === 'full' || role === 'free') await fillUp();
else {
  test('a kill while the disk is full in a checkpoint loses no row', () => run('full'));
  test('writes continue after a checkpoint that the full disk ended', () => run('free'));
}
