import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type DigestAlgorithm, digestOf } from '../../src/oci/digest.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { assertAbsent, assertError, assertServed, assertStatus } from './assertions.ts';
import type { Repository } from './client.ts';
import { dataSet, dataSets } from './data-sets.ts';
import { pushBlob, pushDataSet } from './pushing.ts';
import { startTarget, type Target } from './target.ts';

let target: Target;

before(async () => {
  target = await startTarget();
});

after(async () => target[Symbol.asyncDispose]());

const algorithms: readonly DigestAlgorithm[] = ['sha256', 'sha512'];

for (const set of dataSets) {
  test(`${set.name}: every manifest and blob is returned as it was pushed`, async () => {
    const repository = target.repository(`pull/${set.slug}`);
    await pushDataSet(repository, set);
    for (const manifest of set.manifests) {
      for (const reference of [manifest.digest, ...manifest.tags]) {
        await assertServed(repository, `manifests/${reference}`, manifest);
      }
    }
    for (const [digest, bytes] of set.blobs) {
      await assertServed(repository, `blobs/${digest}`, { digest, bytes });
    }
  });
}

test('a blob that was not pushed into the repository is unknown there', async () => {
  const [[digest = '', bytes = Buffer.alloc(0)] = []] = [...dataSet('image').blobs];
  await pushBlob(target.repository('owner'), bytes, digest);
  const repository = target.repository('neighbour');
  await assertAbsent(repository, `blobs/${digest}`);
  await pushDataSet(repository, dataSet('artifact'));
  await assertAbsent(repository, `blobs/${digest}`);
  for (const algorithm of algorithms) {
    await assertAbsent(repository, `blobs/${digestOf('nowhere', algorithm)}`);
  }
});

test('a manifest that was not pushed into the repository is unknown there', async () => {
  const set = dataSet('image');
  await pushDataSet(target.repository('owner'), set);
  const repository = target.repository('other-neighbour');
  const references = set.manifests.flatMap(({ digest, tags }) => [digest, ...tags]);
  const unknown = [...algorithms.map(algorithm => digestOf('nowhere', algorithm)), 'missing-tag'];
  for (const reference of [...references, ...unknown]) {
    await assertAbsent(repository, `manifests/${reference}`);
  }
  await pushDataSet(repository, dataSet('artifact'));
  for (const reference of [...references, ...unknown]) {
    await assertAbsent(repository, `manifests/${reference}`);
  }
});

test('an invalid digest is refused or unknown', async () => {
  const repository = target.repository('malformed');
  await pushDataSet(repository, dataSet('image'));
  for (const digest of ['sha256:baddigeststring', `sha256:${'0'.repeat(63)}`, 'md5:00']) {
    const manifest = await repository.send('GET', `manifests/${digest}`);
    assertError(manifest, [400, 404], 'DIGEST_INVALID', 'MANIFEST_UNKNOWN');
    const blob = await repository.send('GET', `blobs/${digest}`);
    assertError(blob, [400, 404], 'DIGEST_INVALID', 'BLOB_UNKNOWN');
  }
});

for (const algorithm of algorithms) {
  test(`${algorithm}: ranges of a blob`, async () => {
    const { repository, digest, bytes } = await pushedForRanges(algorithm);
    for (const [range, start, end] of [
      ['500-1499', 500, 1500],
      ['500-', 500, 2048],
      ['-500', 1548, 2048],
      ['2000-5000', 2000, 2048],
      ['0-0', 0, 1],
    ] as const) {
      const headers = { range: `bytes=${range}` };
      const response = await repository.send('GET', `blobs/${digest}`, { headers });
      assertStatus(response, 206);
      assertBytes(response.body, bytes.subarray(start, end), range);
      assert.equal(response.headers['content-length'], String(end - start));
      assert.equal(response.headers['content-range'], `bytes ${start}-${end - 1}/2048`);
    }
  });

  test(`${algorithm}: ranges outside a blob`, async () => {
    const { repository, digest } = await pushedForRanges(algorithm);
    for (const range of ['500-0', '5000-10000', '2048-']) {
      const headers = { range: `bytes=${range}` };
      const response = await repository.send('GET', `blobs/${digest}`, { headers });
      assertStatus(response, 416);
      // A length that is not that of the response makes clients wait for the rest.
      assert.equal(response.headers['content-length'], String(response.body.length), range);
    }
  });
}

async function pushedForRanges(
  algorithm: DigestAlgorithm,
): Promise<{ repository: Repository; digest: string; bytes: Buffer }> {
  const repository = target.repository(`ranges/${algorithm}`);
  const bytes = pattern(2048, 'ranges');
  const digest = digestOf(bytes, algorithm);
  await pushBlob(repository, bytes, digest);
  return { repository, digest, bytes };
}
