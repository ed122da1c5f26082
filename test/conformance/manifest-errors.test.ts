import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { mediaTypes } from '../corpus/content.ts';
import { assertAbsent, assertError, assertStatus } from './assertions.ts';
import type { Repository } from './client.ts';
import type { DraftManifest } from './data-set.ts';
import { dataSet } from './data-sets.ts';
import { pushBlobs, pushDataSet, putManifest } from './pushing.ts';
import { startTarget, type Target } from './target.ts';

const set = dataSet('image');

let target: Target;
let repository: Repository;
let image: DraftManifest;

before(async () => {
  target = await startTarget();
  repository = target.repository('errors');
  await pushBlobs(repository, set);
  const [manifest] = set.manifests;
  assert.ok(manifest);
  image = manifest;
});

after(async () => target[Symbol.asyncDispose]());

test('content with another digest than the one in the path', async () => {
  // Space behind it makes it another manifest, though it says the same.
  const bytes = Buffer.concat([image.bytes, Buffer.from('  ')]);
  const sha512 = digestOf(image.bytes, 'sha512');
  for (const digest of [image.digest, sha512]) {
    const response = await putManifest(repository, digest, { ...image, bytes });
    assertError(response, 400, 'DIGEST_INVALID');
    const tagged = await putManifest(repository, `${digest}?tag=bad`, { ...image, bytes });
    assertError(tagged, 400, 'DIGEST_INVALID');
  }
  for (const reference of [image.digest, sha512, digestOf(bytes), 'bad']) {
    await assertAbsent(repository, `manifests/${reference}`);
  }
});

test('a reference that is neither a tag nor a digest', async () => {
  for (const reference of ['sha256:baddigeststring', `sha256:${'0'.repeat(63)}`, 'md5:00']) {
    assertError(await putManifest(repository, reference, image), 400, 'DIGEST_INVALID');
  }
  for (const reference of ['-tag', '.tag', 'a'.repeat(129), 'a%20b']) {
    assertStatus(await putManifest(repository, reference, image), 400, 404);
  }
  assertStatus(await putManifest(repository, `${image.digest}?tag=-tag`, image), 400);
  await assertAbsent(repository, `manifests/${image.digest}`);
});

test('a manifest whose media type differs from its Content-Type', async () => {
  for (const mediaType of [
    mediaTypes.ociIndex,
    mediaTypes.dockerManifest,
    mediaTypes.dockerList,
    'application/json',
  ]) {
    const response = await putManifest(repository, 'mistyped', { ...image, mediaType });
    assertError(response, 400, 'MANIFEST_INVALID');
  }
  await assertAbsent(repository, 'manifests/mistyped');
});

test('a body that is not a manifest', async () => {
  const descriptor = { mediaType: mediaTypes.ociConfig, size: 2, digest: 'sha256:bad' };
  const { ociManifest: mediaType, ociIndex } = mediaTypes;
  for (const text of [
    '',
    'nonsense',
    '{',
    'null',
    '[]',
    '"text"',
    '{}',
    JSON.stringify({ schemaVersion: 2, mediaType, layers: [] }),
    JSON.stringify({ schemaVersion: 2, mediaType, config: descriptor, layers: [] }),
    image.bytes.subarray(0, -1).toString(),
  ]) {
    const bytes = Buffer.from(text);
    const response = await putManifest(repository, 'broken', { mediaType, bytes });
    assertError(response, 400, 'MANIFEST_INVALID');
    const index = await putManifest(repository, 'broken', { mediaType: ociIndex, bytes });
    assertError(index, 400, 'MANIFEST_INVALID');
  }
  await assertAbsent(repository, 'manifests/broken');
});

test('a manifest that refers to blobs that were not pushed', async () => {
  const elsewhere = target.repository('elsewhere');
  const [, layer] = [...set.blobs.keys()];
  assert.ok(layer);
  await assertIncomplete(elsewhere, image);
  // One of three is missing, though another repository has it.
  const rest = new Map([...set.blobs].filter(([digest]) => digest !== layer));
  await pushBlobs(elsewhere, { ...set, blobs: rest });
  await assertIncomplete(elsewhere, image);
});

test('an index that refers to manifests that were not pushed', async () => {
  const whole = dataSet('index');
  const index = whole.manifests.at(-1);
  assert.ok(index);
  const sparse = target.repository('sparse-index');
  await pushBlobs(sparse, whole);
  await assertIncomplete(sparse, index);
  await pushDataSet(sparse, { ...whole, manifests: whole.manifests.slice(0, 1) });
  await assertIncomplete(sparse, index);
});

test('a manifest larger than 4 MiB', async () => {
  const bytes = Buffer.alloc(4 * 1024 * 1024 + 1, ' ');
  image.bytes.copy(bytes);
  for (const reference of ['too-large', digestOf(bytes)]) {
    const response = await putManifest(repository, reference, { ...image, bytes });
    assertError(response, 413, 'SIZE_INVALID', 'MANIFEST_INVALID');
    await assertAbsent(repository, `manifests/${reference}`);
  }
});

test('a method that a route does not support', async () => {
  for (const [method, route] of [
    ['POST', 'manifests/latest'],
    ['PATCH', 'manifests/latest'],
    ['PUT', `blobs/${[...set.blobs.keys()][0]}`],
    ['POST', 'tags/list'],
    ['DELETE', `referrers/${image.digest}`],
  ] as const) {
    assertError(await repository.send(method, route), 405, 'UNSUPPORTED');
  }
});

/** The manifest is refused because it refers to missing content. */
async function assertIncomplete(where: Repository, manifest: DraftManifest): Promise<void> {
  for (const reference of ['incomplete', manifest.digest]) {
    const response = await putManifest(where, reference, manifest);
    assertError(response, [404, 400], 'MANIFEST_BLOB_UNKNOWN', 'BLOB_UNKNOWN', 'MANIFEST_UNKNOWN');
    await assertAbsent(where, `manifests/${reference}`);
  }
}
