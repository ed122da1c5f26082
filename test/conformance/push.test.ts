import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { raw } from '../faults/http-client.ts';
import { assertServed, assertStatus, locationOf } from './assertions.ts';
import type { DraftManifest } from './data-set.ts';
import { dataSet, dataSets } from './data-sets.ts';
import { pushBlobs, pushDataSet, pushManifest, putManifest } from './pushing.ts';
import { account, startTarget, type Target } from './target.ts';

let target: Target;

before(async () => {
  target = await startTarget();
});

after(async () => target[Symbol.asyncDispose]());

for (const set of dataSets) {
  test(`${set.name}: is accepted by digest and by tag, and again`, async () => {
    const repository = target.repository(`push/${set.slug}`);
    await pushDataSet(repository, set);
    await pushDataSet(repository, set);
  });
}

test('a manifest that was pushed by tag is also available by digest', async () => {
  const repository = target.repository('by-tag');
  const manifest = onlyManifest('image');
  await pushBlobs(repository, dataSet('image'));
  const response = await putManifest(repository, 'latest', manifest);
  assertStatus(response, 201);
  assert.equal(response.headers['docker-content-digest'], manifest.digest);
  assert.equal(response.headers['oci-tag'], undefined);
  for (const place of [locationOf(response), 'manifests/latest', `manifests/${manifest.digest}`]) {
    await assertServed(repository, place, manifest);
  }
});

test('a tag moves to the last pushed manifest', async () => {
  const repository = target.repository('moving');
  for (const name of ['image', 'no layers']) {
    await pushBlobs(repository, dataSet(name));
    assertStatus(await putManifest(repository, 'moving', onlyManifest(name)), 201);
    await assertServed(repository, 'manifests/moving', onlyManifest(name));
  }
  const { digest } = onlyManifest('image');
  await assertServed(repository, `manifests/${digest}`, onlyManifest('image'));
});

test('a push by digest creates no tag, and moves the tags in its query', async () => {
  const repository = target.repository('query');
  await pushBlobs(repository, dataSet('image'));
  await pushBlobs(repository, dataSet('no layers'));
  assertStatus(await putManifest(repository, 'old', onlyManifest('no layers')), 201);
  const manifest = onlyManifest('image');
  const bare = await putManifest(repository, manifest.digest, manifest);
  assert.equal(bare.headers['oci-tag'], undefined);
  const named = await putManifest(repository, `${manifest.digest}?tag=old&tag=new`, manifest);
  assertStatus(named, 201);
  for (const tag of ['old', 'new']) await assertServed(repository, `manifests/${tag}`, manifest);
});

test('each tag in a query has its own OCI-Tag header', async () => {
  const repository = target.repository('headers');
  await pushBlobs(repository, dataSet('image'));
  const { digest, bytes, mediaType } = onlyManifest('image');
  const head = [
    `PUT /v2/${repository.name}/manifests/${digest}?tag=a&tag=b HTTP/1.1`,
    `host: 127.0.0.1:${target.port}`,
    `authorization: Basic ${Buffer.from(account).toString('base64')}`,
    `content-type: ${mediaType}`,
    `content-length: ${bytes.length}`,
    'connection: close',
  ];
  const text = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes]);
  const response = await raw(target.port, text);
  assert.match(response, /^HTTP\/1.1 201 /);
  const tags = [...response.matchAll(/^oci-tag: (.*)\r$/gim)].map(([, tag]) => tag);
  assert.deepEqual(tags, ['a', 'b']);
});

test('a manifest of 4 MiB is accepted', async () => {
  const repository = target.repository('largest');
  const set = dataSet('no layers');
  await pushBlobs(repository, set);
  const bytes = Buffer.alloc(4 * 1024 * 1024, ' ');
  onlyManifest('no layers').bytes.copy(bytes);
  const largest = { ...onlyManifest('no layers'), bytes, digest: digestOf(bytes) };
  await pushManifest(repository, largest);
});

/** The one manifest of a data set that has no more. */
function onlyManifest(name: string): DraftManifest {
  const [manifest, another] = dataSet(name).manifests;
  assert.ok(manifest !== undefined && another === undefined, name);
  return manifest;
}
