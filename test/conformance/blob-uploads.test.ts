import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type DigestAlgorithm, digestOf } from '../../src/oci/digest.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { assertAbsent, assertError, assertServed, assertStatus, locationOf } from './assertions.ts';
import { begin, chunkedBytes, finish, sendChunk, uploadWays } from './blob-uploads.ts';
import type { ClientResponse, Repository } from './client.ts';
import { pushBlob } from './pushing.ts';
import { startTarget, type Target } from './target.ts';

let target: Target;
let repository: Repository;
let source: Repository;

before(async () => {
  target = await startTarget();
  repository = target.repository('uploads');
  source = target.repository('source');
});

after(async () => target[Symbol.asyncDispose]());

const algorithms: readonly DigestAlgorithm[] = ['sha256', 'sha512'];

for (const algorithm of algorithms) {
  const blobOf = (seed: string, length = 512) => {
    const bytes = pattern(length, `${algorithm} ${seed}`);
    return { bytes, digest: digestOf(bytes, algorithm) };
  };

  for (const [way, upload] of Object.entries(uploadWays)) {
    test(`${algorithm}: ${way}`, async () => {
      const blob = blobOf(way, chunkedBytes);
      await assertAbsent(repository, `blobs/${blob.digest}`);
      await assertCreated(await upload(repository, blob.bytes, blob.digest), blob);
    });

    test(`${algorithm}: ${way}, with a wrong digest`, async () => {
      const { digest } = blobOf(`wrong, ${way}`, chunkedBytes);
      const bytes = blobOf(`sent, ${way}`, chunkedBytes).bytes;
      assertError(await upload(repository, bytes, digest), 400, 'DIGEST_INVALID');
      // Neither the stated nor the sent content exists, under any name.
      for (const name of [digest, ...algorithms.map(each => digestOf(bytes, each))]) {
        await assertAbsent(repository, `blobs/${name}`);
      }
    });
  }

  for (const [what, text] of Object.entries({ 'the empty blob': '', 'an empty object': '{}' })) {
    test(`${algorithm}: ${what}`, async () => {
      const bytes = Buffer.from(text);
      const blob = { bytes, digest: digestOf(bytes, algorithm) };
      for (const way of ['POST with the digest and the content', 'a stream without a length']) {
        const own = target.repository(`tiny/${way.split(' ')[0]?.toLowerCase()}`);
        const reply = await uploadWays[way]?.(own, bytes, blob.digest);
        assert.ok(reply, way);
        await assertCreated(reply, blob, own);
      }
      const response = await finish(repository, await begin(repository), blob.digest, bytes);
      await assertCreated(response, blob);
    });
  }

  test(`${algorithm}: an existing blob can be pushed again`, async () => {
    const { bytes, digest } = blobOf('twice');
    for (const _ of [1, 2]) await pushBlob(repository, bytes, digest);
    await assertServed(repository, `blobs/${digest}`, { bytes, digest });
  });

  test(`${algorithm}: a blob is mounted from another repository`, async () => {
    const { bytes, digest } = blobOf('mount');
    await pushBlob(source, bytes, digest);
    await assertCreated(await mount(digest, source.name), { bytes, digest });
  });

  test(`${algorithm}: a blob is mounted without naming its repository`, async () => {
    const { bytes, digest } = blobOf('mount from anywhere');
    await pushBlob(source, bytes, digest);
    await assertCreated(await mount(digest), { bytes, digest });
  });

  test(`${algorithm}: a mount of an unknown blob starts an upload`, async () => {
    for (const from of [source.name, 'conformance/does-not-exist', undefined]) {
      const { bytes, digest } = blobOf(`mount of an unknown blob, ${from}`);
      const response = await mount(digest, from);
      assertStatus(response, 202);
      await assertAbsent(repository, `blobs/${digest}`);
      const pushed = await finish(repository, locationOf(response), digest, bytes);
      await assertCreated(pushed, { bytes, digest });
    }
  });

  test(`${algorithm}: a cancelled upload`, async () => {
    const { bytes, digest } = blobOf('given up');
    const location = await begin(repository);
    const chunk = { bytes, start: 0, end: 100 };
    assertStatus(await sendChunk(repository, 'PATCH', location, chunk), 202);
    assertStatus(await repository.send('DELETE', location), 204);
    await assertNoUpload(location, digest, bytes);
    await assertAbsent(repository, `blobs/${digest}`);
  });

  test(`${algorithm}: an upload ends when its blob exists`, async () => {
    const { bytes, digest } = blobOf('over');
    const location = await begin(repository);
    assertStatus(await finish(repository, location, digest, bytes), 201);
    await assertNoUpload(location, digest, bytes);
  });
}

test('an upload belongs to its repository', async () => {
  const bytes = pattern(512, 'elsewhere');
  const location = await begin(repository);
  const elsewhere = location.replace(`/${repository.name}/`, `/${source.name}/`);
  await assertNoUpload(elsewhere, digestOf(bytes), bytes);
  assertStatus(await repository.send('GET', location), 204);
});

test('an upload cannot end without a digest', async () => {
  const location = await begin(repository);
  assertError(await repository.send('PUT', location), 400, 'DIGEST_INVALID');
  for (const digest of ['sha256:baddigeststring', 'sha256', '']) {
    const response = await finish(repository, location, digest, Buffer.from('x'));
    assertError(response, 400, 'DIGEST_INVALID');
  }
});

test('two simultaneous uploads do not mix', async () => {
  const blobs = ['one', 'two'].map(seed => pattern(512, `at once, ${seed}`));
  const locations = await Promise.all(blobs.map(() => begin(repository)));
  assert.notEqual(locations[0], locations[1]);
  await Promise.all(
    blobs.map(async (bytes, number) => {
      const digest = digestOf(bytes);
      const response = await finish(repository, locations[number] ?? '', digest, bytes);
      await assertCreated(response, { bytes, digest });
    }),
  );
});

function mount(digest: string, from?: string): Promise<ClientResponse> {
  const query = new URLSearchParams({ mount: digest, ...(from === undefined ? {} : { from }) });
  return repository.send('POST', `blobs/uploads/?${query}`);
}

/** The response says that the blob exists, and names its location, where it is. */
async function assertCreated(
  response: ClientResponse,
  { bytes, digest }: { bytes: Buffer; digest: string },
  where: Repository = repository,
): Promise<void> {
  assertStatus(response, 201);
  assert.equal(response.headers['docker-content-digest'], digest);
  await assertServed(where, locationOf(response), { bytes, digest });
  await assertServed(where, `blobs/${digest}`, { bytes, digest });
}

async function assertNoUpload(location: string, digest: string, bytes: Buffer): Promise<void> {
  const chunk = { bytes, start: 0, end: bytes.length };
  for (const response of [
    await repository.send('GET', location),
    await repository.send('DELETE', location),
    await sendChunk(repository, 'PATCH', location, chunk),
    await finish(repository, location, digest, bytes),
  ]) {
    assertError(response, 404, 'BLOB_UPLOAD_UNKNOWN');
  }
}
