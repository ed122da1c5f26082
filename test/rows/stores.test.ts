import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { createContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createUsageStore } from '../../src/storage/rows/figures/usage-rows.ts';
import { createHostedStore } from '../../src/storage/rows/hosted/hosted-rows.ts';
import { createCachedBlobStore } from '../../src/storage/rows/images/cached-blob-rows.ts';
import { createFetchedLayerStore } from '../../src/storage/rows/images/layer-rows.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { storeStatements } from './store-statements.ts';

const hash = (text: string) => Buffer.from(text);
const copy = { wasHere: false };

test('requests: inserted, found, revoked once, purged by their end', async () => {
  const store = createRequestStore(openDatabase(':memory:'));
  const shown = (expiresAt: number) => ({ createdAt: 1, expiresAt, body: '{"a":1}' });
  const row = (expiresAt: number) => ({ ...shown(expiresAt), needs: Buffer.alloc(0) });
  await Promise.all([
    store.insert(hash('one'), row(10)),
    store.insert(hash('two'), row(20)),
    store.insert(hash('three'), row(30)),
  ]);
  assert.deepEqual(await store.find(hash('two')), {
    ...shown(20),
    revokedAt: null,
    leaseUntil: null,
  });
  assert.equal(await store.find(hash('four')), undefined);
  assert.equal(await store.revoke(hash('two'), 15), true);
  assert.equal(await store.revoke(hash('two'), 16), false);
  assert.equal(await store.revoke(hash('four'), 16), false);
  assert.equal((await store.find(hash('two')))?.revokedAt, 15);
  assert.equal(await store.purge(20), 1);
  assert.equal(await store.find(hash('one')), undefined);
  assert.ok(await store.find(hash('three')));
  await assert.rejects(store.insert(hash('three'), row(30)), /UNIQUE/);
});

test('what a request needs is written with its body, and neither changes', async () => {
  const found = await storeStatements(openDatabase(':memory:'));
  const written = found
    .flatMap(({ statements }) => statements)
    .filter(sql => /\b(?:INTO|UPDATE) requests\b/.test(sql));
  const inserts = written.filter(sql => sql.startsWith('INSERT'));
  const updates = written.filter(sql => sql.startsWith('UPDATE'));
  assert.equal(inserts.length, 1);
  assert.match(inserts.join(), /\bbody\b.*\bneeds\b/);
  assert.equal(updates.length, 3);
  for (const sql of updates) assert.doesNotMatch(sql, /\b(?:body|needs)\b/);
});

test('usage: counted at once, written together, summed by day and organisation', async () => {
  await using directory = await makeTempDir('store');
  const path = directory.join('below', 'sluice.db');
  const database = openDatabase(path);
  const usage = createUsageStore(database);
  for (const [day, org] of [
    ['2026-01-01', undefined],
    ['2026-01-01', 'a.org'],
    ['2026-01-01', 'a.org'],
    ['2026-01-02', 'a.org'],
    ['2026-01-02', 'b.org'],
  ] as const) {
    usage.add('pulls', day, org);
  }
  usage.add('mounted', '2026-01-02', '__proto__');
  assert.equal(await usage.count('pulls', {}), 5);
  assert.equal(await usage.count('pulls', { day: '2026-01-01' }), 3);
  assert.equal(await usage.count('pulls', { org: 'a.org' }), 3);
  assert.equal(await usage.count('pulls', { org: 'a.org', day: '2026-01-02' }), 1);
  assert.deepEqual(await usage.countByOrg('pulls', {}), { 'a.org': 3, 'b.org': 1 });
  assert.deepEqual(Object.entries(await usage.countByOrg('mounted', {})), [['__proto__', 1]]);
  assert.equal(await usage.count('builds', {}), 0);
  usage.add('pulls', '2026-01-02', 'a.org');
  await usage.flush();
  await usage.flush();
  database.close();
  const again = openDatabase(path);
  assert.equal(await createUsageStore(again).count('pulls', {}), 6);
  again.close();
});

test('cached blobs: the least recently used one is the oldest', async () => {
  const database = openDatabase(':memory:');
  const store = createCachedBlobStore(database);
  const [a, b, c] = ['a', 'b', 'c'].map(text => digestOf(text));
  assert.ok(a && b && c);
  assert.equal(await store.total(), 0);
  assert.equal(await store.oldest(), undefined);
  await store.enter({ ...copy, digest: a, size: 10, places: ['one.example.com'], at: 1 });
  await store.enter({ ...copy, digest: b, size: 20, places: ['one.example.com'], at: 2 });
  await store.enter({ ...copy, digest: c, size: 30, places: ['other.example.com'], at: 3 });
  store.touch(a, 4);
  await database.commit(() => database.sql('SELECT 1').get());
  assert.equal(await store.total(), 60);
  assert.deepEqual(await store.oldest(), { digest: b, size: 20, usedAt: 2 });
  assert.deepEqual(await store.oldest(3), { digest: c, size: 30, usedAt: 3 });
  assert.equal(await store.oldest(5), undefined);
  assert.equal(await store.drop(b), true);
  assert.deepEqual([await store.has(b), await store.has(a)], [false, true]);
  assert.deepEqual(await store.oldest(), { digest: c, size: 30, usedAt: 3 });
  assert.equal(await store.total(), 40);
});

test('cached blobs: a copy belongs to the registries that have sent it', async () => {
  const store = createCachedBlobStore(openDatabase(':memory:'));
  const blob = digestOf('blob');
  await store.enter({ ...copy, digest: blob, size: 4, places: ['one.example.com'], at: 1 });
  assert.equal(await store.isFrom(blob, 'one.example.com'), true);
  assert.equal(await store.isFrom(blob, 'other.example.com'), false);
  await store.enter({ ...copy, digest: blob, size: 4, places: ['other.example.com'], at: 2 });
  assert.equal(await store.isFrom(blob, 'other.example.com'), true);
  await store.drop(blob);
  await store.enter({ ...copy, digest: blob, size: 4, places: ['other.example.com'], at: 3 });
  assert.equal(await store.isFrom(blob, 'one.example.com'), false);
});

test('cached blobs: content with other references is not only a copy', async () => {
  const store = createCachedBlobStore(openDatabase(':memory:'));
  const [here, before, after, free] = ['here', 'before', 'after', 'free'].map(text =>
    digestOf(text),
  );
  assert.ok(here && before && after && free);
  const enter = (digest: typeof here, wasHere = false) =>
    store.enter({ digest, size: 1, places: ['one.example.com'], at: 1, wasHere });
  await enter(here, true);
  await enter(here);
  await store.adopt(before);
  await enter(before);
  await enter(after);
  const adopting = store.adopt(after);
  assert.equal(await store.isMereCopy(after), false, 'from the moment of the call');
  await adopting;
  await enter(free);
  const mere = await Promise.all([here, before, after, free].map(store.isMereCopy));
  assert.deepEqual(mere, [false, false, false, true]);
});

test('fetched layers: found by their location, which is not in the database', async () => {
  const database = openDatabase(':memory:');
  const store = createFetchedLayerStore(database);
  const location = 'https://example.com/layer.tar.gz?signature=hush';
  assert.equal(await store.find(location, 1), undefined);
  store.put(location, 'one', 1);
  store.put(location, 'two', 1);
  await database.commit(() => database.sql('SELECT 1').get());
  assert.equal(await store.find(location, 1), 'two');
  assert.equal(await store.find('https://example.com/layer.tar.gz', 1), undefined);
  assert.ok(!database.serialize().includes('hush'));
});

test('hosted: all manifests of one repository are removed, with their tags and parts', async () => {
  const database = openDatabase(':memory:');
  const store = createHostedStore(database);
  const contents = createContentRowStore(database);
  const [one, other, part] = ['one', 'other', 'part'].map(text => digestOf(Buffer.from(text)));
  assert.ok(one && other && part);
  const about = { mediaType: 'x', size: 1, subject: null, artifactType: null, annotations: null };
  const limits = {
    maxBlobBytes: undefined,
    maxRepositoryBytes: undefined,
    maxTotalBytes: undefined,
  };
  const unpushed = { repository: 'kept', digest: part, size: 1, at: 1, limits };
  assert.equal(await store.putBlob(unpushed), 'gone', 'the content does not exist');
  for (const digest of [one, other, part]) {
    await contents.announce(digest, 1);
    await contents.arrive(digest);
  }
  const blobs = [{ digest: part, size: 1, isOptional: true }];
  const push = { blobs, manifests: [], limits };
  for (const repository of ['staging/1', 'kept']) {
    const manifest = { ...about, digest: one };
    await store.putManifest({ ...push, repository, manifest, tags: ['latest'] });
    await store.putManifest({
      ...push,
      repository,
      manifest: { ...about, digest: other },
      tags: [],
    });
    await store.putBlob({ repository, digest: part, size: 1, at: 1, limits });
  }
  await store.removeManifests('staging/1');
  await store.removeManifests('unknown');
  assert.equal(await store.manifest('staging/1', one), undefined);
  assert.equal(await store.manifest('staging/1', other), undefined);
  assert.equal(await store.tagged('staging/1', 'latest'), undefined);
  assert.deepEqual(await store.removeBlob('staging/1', part), { kind: 'removed' });
  assert.equal(await store.tagged('kept', 'latest'), one);
  assert.ok(await store.manifest('kept', other));
  assert.equal((await store.removeBlob('kept', part)).kind, 'needed');
});
