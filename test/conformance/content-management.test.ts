import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { assertAbsent, assertError, assertServed, assertStatus } from './assertions.ts';
import type { Repository } from './client.ts';
import type { DataSet } from './data-set.ts';
import { dataSet, dataSets } from './data-sets.ts';
import { tagsOf } from './listing.ts';
import { pushBlob, pushBlobs, pushDataSet, putManifest } from './pushing.ts';
import { startTarget, type Target } from './target.ts';

let target: Target;

before(async () => {
  target = await startTarget();
});

after(async () => target[Symbol.asyncDispose]());

for (const set of dataSets) {
  test(`${set.name}: every tag, manifest and blob can be deleted, and is unknown at once`, async () => {
    const repository = target.repository(`delete/${set.slug}`);
    await pushDataSet(repository, set);
    for (const { tags } of set.manifests) {
      for (const tag of tags) await remove(repository, `manifests/${tag}`);
    }
    // Content that refers to other content comes first.
    for (const manifest of set.manifests.toReversed()) {
      await assertServed(repository, `manifests/${manifest.digest}`, manifest);
      await remove(repository, `manifests/${manifest.digest}`);
    }
    for (const [digest, bytes] of set.blobs) {
      await assertServed(repository, `blobs/${digest}`, { digest, bytes });
      await remove(repository, `blobs/${digest}`);
    }
    await assertNothingLeft(repository, set);
  });
}

test('deleting a tag deletes neither its manifest nor other tags', async () => {
  const repository = target.repository('tags');
  const set = dataSet('image');
  const [manifest] = set.manifests;
  assert.ok(manifest);
  await pushBlobs(repository, set);
  for (const tag of ['one', 'two']) await putManifest(repository, tag, manifest);
  await remove(repository, 'manifests/one');
  assert.deepEqual(await tagsOf(repository), ['two']);
  await assertServed(repository, 'manifests/two', manifest);
  await remove(repository, 'manifests/two');
  await assertServed(repository, `manifests/${manifest.digest}`, manifest);
});

test('deleting a manifest deletes its tags, and no others', async () => {
  const repository = target.repository('manifests');
  for (const name of ['image', 'no layers']) {
    const set = dataSet(name);
    await pushBlobs(repository, set);
    for (const manifest of set.manifests) {
      for (const number of [1, 2]) {
        await putManifest(repository, `${set.slug}-${number}`, manifest);
      }
    }
  }
  for (const { digest } of dataSet('image').manifests) {
    await remove(repository, `manifests/${digest}`);
  }
  await assertAbsent(repository, 'manifests/image-1');
  await assertAbsent(repository, 'manifests/image-2');
  assert.deepEqual(await tagsOf(repository), ['no-layers-1', 'no-layers-2']);
  for (const manifest of dataSet('no layers').manifests) {
    await assertServed(repository, 'manifests/no-layers-1', manifest);
  }
  for (const [digest, bytes] of dataSet('image').blobs) {
    await assertServed(repository, `blobs/${digest}`, { digest, bytes });
  }
});

test('deleted content can be pushed again', async () => {
  const repository = target.repository('again');
  const set = dataSet('index');
  for (const _ of [1, 2]) {
    await pushDataSet(repository, set);
    await assertAllThere(repository, set);
    await removeAll(repository, set);
  }
});

test('unknown content cannot be deleted', async () => {
  const known = target.repository('known');
  await pushDataSet(known, dataSet('image'));
  for (const repository of [known, target.repository('unknown')]) {
    for (const algorithm of ['sha256', 'sha512'] as const) {
      const digest = digestOf('nowhere', algorithm);
      const blob = await repository.send('DELETE', `blobs/${digest}`);
      assertError(blob, 404, 'BLOB_UNKNOWN', 'NAME_UNKNOWN');
      const manifest = await repository.send('DELETE', `manifests/${digest}`);
      assertError(manifest, 404, 'MANIFEST_UNKNOWN', 'NAME_UNKNOWN');
    }
    const tag = await repository.send('DELETE', 'manifests/missing-tag');
    assertError(tag, 404, 'MANIFEST_UNKNOWN', 'NAME_UNKNOWN');
  }
  for (const route of ['manifests/sha256:baddigeststring', 'blobs/sha256:baddigeststring']) {
    assertStatus(await known.send('DELETE', route), 400, 404);
  }
  await assertAllThere(known, dataSet('image'));
});

test('a second deletion reports unknown content', async () => {
  const repository = target.repository('twice');
  const set = dataSet('image');
  await pushDataSet(repository, set);
  await removeAll(repository, set);
  for (const { digest, tags } of set.manifests) {
    for (const reference of [digest, ...tags]) {
      const response = await repository.send('DELETE', `manifests/${reference}`);
      assertError(response, 404, 'MANIFEST_UNKNOWN', 'NAME_UNKNOWN');
    }
  }
  for (const digest of set.blobs.keys()) {
    const response = await repository.send('DELETE', `blobs/${digest}`);
    assertError(response, 404, 'BLOB_UNKNOWN', 'NAME_UNKNOWN');
  }
});

test('deletion does not affect the same content in another repository', async () => {
  const set = dataSet('index');
  const [here, there] = [target.repository('here'), target.repository('there')];
  await pushDataSet(here, set);
  await pushDataSet(there, set);
  await removeAll(here, set);
  await assertAllThere(there, set);
  await assertNothingLeft(here, set);
});

test('a mounted blob remains when the original is deleted', async () => {
  const [source, mounted] = [target.repository('source'), target.repository('mounted')];
  const [[digest = '', bytes = Buffer.alloc(0)] = []] = [...dataSet('image').blobs];
  await pushBlob(source, bytes, digest);
  const query = new URLSearchParams({ mount: digest, from: source.name });
  assertStatus(await mounted.send('POST', `blobs/uploads/?${query}`), 201);
  await remove(source, `blobs/${digest}`);
  await assertServed(mounted, `blobs/${digest}`, { digest, bytes });
});

async function remove(repository: Repository, route: string): Promise<void> {
  assertStatus(await repository.send('DELETE', route), 202);
  await assertAbsent(repository, route);
}

async function removeAll(repository: Repository, { blobs, manifests }: DataSet): Promise<void> {
  for (const { digest } of manifests.toReversed()) await remove(repository, `manifests/${digest}`);
  for (const digest of blobs.keys()) await remove(repository, `blobs/${digest}`);
}

async function assertAllThere(repository: Repository, set: DataSet): Promise<void> {
  for (const manifest of set.manifests) {
    for (const reference of [manifest.digest, ...manifest.tags]) {
      await assertServed(repository, `manifests/${reference}`, manifest);
    }
  }
  for (const [digest, bytes] of set.blobs) {
    await assertServed(repository, `blobs/${digest}`, { digest, bytes });
  }
}

/** Also when everything else is deleted by now. */
async function assertNothingLeft(repository: Repository, set: DataSet): Promise<void> {
  for (const { digest, tags } of set.manifests) {
    for (const reference of [digest, ...tags]) {
      await assertAbsent(repository, `manifests/${reference}`);
    }
  }
  for (const digest of set.blobs.keys()) await assertAbsent(repository, `blobs/${digest}`);
  const response = await repository.send('GET', 'tags/list');
  if (response.status !== 404) assert.deepEqual(await tagsOf(repository), []);
}
