import assert from 'node:assert/strict';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { type Slab, SlabPool } from '../../src/storage/content/file-source.ts';
import { createContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { contentSuite } from './content-suite.ts';

function pathOf(directory: TempDir, digest: Digest): string {
  const hex = digest.slice('sha256:'.length);
  return directory.join('blobs', 'sha256', hex.slice(0, 2), hex);
}

contentSuite('a directory', async () => {
  const directory = await makeTempDir('content');
  const database = openDatabase(':memory:');
  const rows = createContentRowStore(database);
  const content = await openContentDirectory(directory.path, { uses: rows, isOwner: true });
  return {
    content,
    rows,
    async leaveWithoutRow(bytes) {
      const path = pathOf(directory, digestOf(bytes));
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, bytes);
    },
    lose: digest => rm(pathOf(directory, digest)),
    async restart(kept) {
      const again = await openContentDirectory(directory.path, { uses: rows });
      await again.removeLeftovers(Number.POSITIVE_INFINITY, kept);
      return again;
    },
    async [Symbol.asyncDispose]() {
      assert.deepEqual(await readdir(directory.join('tmp')), [], 'no temporary file is left');
      await content.close();
      await database.end();
      await directory.remove();
    },
  };
});

test('a document that was damaged on the disk counts as absent', async () => {
  await using directory = await makeTempDir('content');
  const store = await openContentDirectory(directory.path);
  const bytes = Buffer.from('{"a":1}');
  const digest = digestOf(bytes);
  await store.write(digest, bytes);
  assertBytes(await store.read(digest), bytes);
  await writeFile(pathOf(directory, digest), '{"a":2}');
  assert.equal(await store.read(digest), undefined);
  await store.write(digest, bytes);
  assertBytes(await store.read(digest), bytes);
});

test('damaged content that was set aside has no row', async () => {
  await using directory = await makeTempDir('content');
  const database = openDatabase(':memory:');
  const uses = createContentRowStore(database);
  const store = await openContentDirectory(directory.path, { uses });
  const bytes = Buffer.from('{"a":1}');
  const digest = digestOf(bytes);
  await store.write(digest, bytes);
  await writeFile(pathOf(directory, digest), '{"a":2}');
  assert.equal(await store.read(digest), undefined);
  assert.deepEqual(await uses.after('', 10, 0), []);
  assert.equal((await readdir(directory.join('damaged'))).length, 1);
  await store.write(digest, bytes);
  assert.equal(await store.claim(digest), true);
  await database.end();
});

test('damaged content that is sent again during its examination is not discarded', async () => {
  await using directory = await makeTempDir('content');
  const database = openDatabase(':memory:');
  const rows = createContentRowStore(database);
  const server = await openContentDirectory(directory.path, { uses: rows });
  const bytes = Buffer.from('brought again');
  const digest = digestOf(bytes);
  await server.write(digest, bytes);
  await writeFile(pathOf(directory, digest), 'brought wrong');
  /** Replaces the damaged file once it is open. */
  class Replacing extends SlabPool {
    override take(large: boolean): Slab {
      rmSync(pathOf(directory, digest));
      writeFileSync(directory.join('again'), bytes);
      renameSync(directory.join('again'), pathOf(directory, digest));
      return super.take(large);
    }
  }
  const command = await openContentDirectory(directory.path, {
    uses: rows,
    slabs: new Replacing(),
  });
  assert.equal(await command.discardDamaged(digest), 'damaged');
  assertBytes(await server.read(digest), bytes);
  assert.equal(await server.claim(digest), true);

  await writeFile(pathOf(directory, digest), 'brought wrong');
  assert.equal(await server.discardDamaged(digest), 'damaged');
  assert.equal(await server.size(digest), undefined);
  assert.deepEqual(await rows.after('', 10, 0), []);
  await database.end();
});

test('leftovers of a crash are removed, and content stays', async () => {
  await using directory = await makeTempDir('content');
  const before = await openContentDirectory(directory.path);
  await before.write(digestOf('kept'), Buffer.from('kept'));
  const ingest = await before.ingest();
  await ingest.write(Buffer.from('lost'));
  const after = await openContentDirectory(directory.path);
  assert.equal(await after.removeLeftovers(Date.now() - 60_000), 0, 'it may still be written to');
  assert.equal(await after.removeLeftovers(Number.POSITIVE_INFINITY), 1);
  assert.deepEqual(await readdir(directory.join('tmp')), []);
  assert.equal(await after.size(digestOf('kept')), 4);
  await ingest.abort();
});
