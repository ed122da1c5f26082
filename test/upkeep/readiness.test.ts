import assert from 'node:assert/strict';
import { mkdir, readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createReadiness } from '../../src/server/upkeep/readiness.ts';
import { unlimitedSpace } from '../../src/storage/directory/disk-space.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { rowsOf } from '../../src/storage/rows/rows.ts';
import { makeTempDir } from '../world/temp-dir.ts';

async function world() {
  const directory = await makeTempDir('readiness');
  await mkdir(directory.join('tmp'));
  const database = openDatabase(directory.join('sluice.db'), {});
  database.exec("INSERT INTO data_directory (id) VALUES ('one')");
  return {
    database,
    deps: { directory: directory.path, rows: rowsOf(database) },
    temporary: () => readdir(directory.join('tmp')),
    async [Symbol.asyncDispose]() {
      await database.end();
      await directory.remove();
    },
  };
}

test('a check writes and reads, is shared for a moment, and leaves nothing behind', async () => {
  await using made = await world();
  let looks = 0;
  const space = {
    ...unlimitedSpace,
    async look() {
      looks += 1;
    },
  };
  const readiness = createReadiness({ ...made.deps, space, believedMs: 60_000 });
  await Promise.all(Array.from({ length: 100 }, () => readiness.forAll()));
  await readiness.forAll();
  assert.equal(looks, 1);
  assert.deepEqual(await made.temporary(), []);
});

test('a disk that does not answer delays nobody, and is not asked a second time meanwhile', async () => {
  await using made = await world();
  let looks = 0;
  const space = {
    ...unlimitedSpace,
    look() {
      looks += 1;
      return new Promise<void>(() => {});
    },
  };
  const readiness = createReadiness({ ...made.deps, space, believedMs: 0, limitMs: 500 });
  for (let count = 0; count < 5; count += 1) {
    await assert.rejects(readiness.forAll(), { kind: 'unavailable', message: /does not answer/ });
  }
  assert.equal(looks, 1);
  await readiness.forReading();
});

test('a part that does not answer is named', async () => {
  await using made = await world();
  const never = () => new Promise<never>(() => {});
  const space = unlimitedSpace;
  const common = { ...made.deps, space, limitMs: 100 };
  const store = createReadiness({
    ...common,
    content: { size: never },
    contentPart: 'object store',
  });
  await assert.rejects(store.forReading(), { message: /^The object store .* does not answer$/ });
  const disk = createReadiness({ ...common, content: { size: never } });
  await assert.rejects(disk.forAll(), { message: /^The disk .* does not answer$/ });
  const identity = { ...made.deps.rows.identity, proveRead: never };
  const database = createReadiness({ ...common, rows: { ...made.deps.rows, identity } });
  await assert.rejects(database.forAll(), { message: /^The database .* does not answer$/ });
});

test('a store that refuses writes is not ready, except for reads, and is asked twice a minute', async () => {
  await using made = await world();
  let now = 0;
  let writes = 0;
  let isRefused = false;
  const readiness = createReadiness({
    ...made.deps,
    space: unlimitedSpace,
    believedMs: -1,
    now: () => now,
    contentPart: 'object store',
    async writeContent() {
      writes += 1;
      if (isRefused) throw new Fault('unavailable', 'AccessDenied', { phase: 'store' });
    },
  });
  await readiness.forAll();
  isRefused = true;
  now += 29_000;
  await readiness.forAll();
  assert.equal(writes, 1);
  now += 2000;
  for (const _ of [1, 2]) await assert.rejects(readiness.forAll(), { message: 'AccessDenied' });
  await readiness.forReading();
  isRefused = false;
  await readiness.forAll();
  assert.equal(writes, 4);
});

test('a replica gets requests for two minutes without its database, and again when it has it', async () => {
  await using made = await world();
  let now = 0;
  let isCurrent = true;
  const rows = { ...made.deps.rows, isCurrent: () => isCurrent };
  const readiness = createReadiness({
    ...{ ...made.deps, rows, space: unlimitedSpace, now: () => now },
  });
  now = 300_000;
  readiness.forTraffic(false);
  isCurrent = false;
  now += 119_000;
  readiness.forTraffic(false);
  now += 2000;
  assert.throws(() => readiness.forTraffic(false), { kind: 'unavailable', message: /two minutes/ });
  isCurrent = true;
  readiness.forTraffic(false);
});

test('a replica without its database leaves the balancer at once when another one can lead', async () => {
  await using made = await world();
  let isCurrent = true;
  const rows = { ...made.deps.rows, isCurrent: () => isCurrent, hasSuccessor: () => true };
  const readiness = createReadiness({ ...{ ...made.deps, rows, space: unlimitedSpace } });
  readiness.forTraffic(false);
  isCurrent = false;
  assert.throws(() => readiness.forTraffic(false), {
    kind: 'unavailable',
    message: /another replica/,
  });
  // The others answer what this one has in memory.
  readiness.forTraffic(true);
});

test('an unreadable database is reported', async () => {
  await using made = await world();
  const readiness = createReadiness({ ...made.deps, space: unlimitedSpace });
  made.database.close();
  await assert.rejects(readiness.forReading(), { kind: 'unavailable', message: /cannot be read/ });
});

test('a database that another process keeps locked is ready for reads and not for writes', async () => {
  await using made = await world();
  const readiness = createReadiness({
    ...{ ...made.deps, space: unlimitedSpace },
    ...{ believedMs: 0, limitMs: 4000 },
  });
  const other = openDatabase(made.database.name);
  const seen = () => other.pragma('data_version', { simple: true });
  const before = seen();
  await readiness.forAll();
  assert.notEqual(seen(), before, 'a row was written');
  other.exec('BEGIN IMMEDIATE');
  await assert.rejects(readiness.forAll(), { kind: 'unavailable', message: /locked/ });
  await readiness.forReading();
  other.exec('ROLLBACK');
  await readiness.forAll();
  await other.end();
});
