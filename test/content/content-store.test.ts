import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import fc from 'fast-check';
import { digestOf } from '../../src/oci/digest.ts';
import { drain } from '../../src/storage/content/byte-source.ts';
import { type ContentStore, openContentStore } from '../../src/storage/content/content-store.ts';
import { makeTempDir } from '../world/temp-dir.ts';

async function listed(store: ContentStore): Promise<{ digest: string; size: number }[]> {
  const entries = [];
  for await (const { digest, size } of store.list()) entries.push({ digest, size });
  return entries;
}

test('what was taken in is there under its digest, whole and in parts', async () => {
  await using directory = await makeTempDir('content');
  const store = await openContentStore(directory.path);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 5 }),
      fc.constantFrom('sha256', 'sha512') as fc.Arbitrary<'sha256' | 'sha512'>,
      async (parts, algorithm) => {
        const whole = Buffer.concat(parts);
        const ingest = await store.ingest(algorithm);
        let size = 0;
        for (const part of parts) {
          await ingest.write(part);
          size += part.length;
          assert.equal(ingest.size, size);
        }
        const expected = digestOf(whole, algorithm);
        assert.equal(ingest.digest(), expected);
        assert.equal(await ingest.commit(), expected);
        await ingest.abort();
        assert.equal(await store.size(expected), whole.length);
        assert.deepEqual(await store.read(expected), whole);
        if (whole.length < 3) return;
        const range: Buffer[] = [];
        const source = store.open(expected, 1, whole.length - 2);
        await drain(source, bytes => range.push(Buffer.from(bytes)));
        assert.deepEqual(Buffer.concat(range), whole.subarray(1, -1));
      },
    ),
    { numRuns: 25 },
  );
  assert.deepEqual(await readdir(directory.join('tmp')), []);
});

test('nothing is visible before the commit, nothing is left after an abort', async () => {
  await using directory = await makeTempDir('content');
  const store = await openContentStore(directory.path);
  const ingest = await store.ingest();
  await ingest.write(Buffer.from('half'));
  assert.equal(await store.size(digestOf('half')), undefined);
  assert.equal(await store.read(digestOf('half')), undefined);
  await ingest.abort();
  await ingest.abort();
  assert.deepEqual(await readdir(directory.join('tmp')), []);
  assert.deepEqual(await listed(store), []);
});

test('a document that was damaged on the disk is as good as absent', async () => {
  await using directory = await makeTempDir('content');
  const store = await openContentStore(directory.path);
  const bytes = Buffer.from('{"a":1}');
  const digest = digestOf(bytes);
  await store.write(digest, bytes);
  assert.deepEqual(await store.read(digest), bytes);
  const hex = digest.slice('sha256:'.length);
  await writeFile(directory.join('blobs', 'sha256', hex.slice(0, 2), hex), '{"a":2}');
  assert.equal(await store.read(digest), undefined);
  await store.write(digest, bytes);
  assert.deepEqual(await store.read(digest), bytes);
});

test('leftovers of a crash are removed, contents stay', async () => {
  await using directory = await makeTempDir('content');
  const before = await openContentStore(directory.path);
  await before.write(digestOf('kept'), Buffer.from('kept'));
  const ingest = await before.ingest();
  await ingest.write(Buffer.from('lost'));
  await mkdir(directory.join('tmp'), { recursive: true });
  const after = await openContentStore(directory.path);
  assert.equal(await after.removeLeftovers(Date.now() - 60_000), 0, 'it may still be written to');
  assert.equal(await after.removeLeftovers(Number.POSITIVE_INFINITY), 1);
  assert.deepEqual(await readdir(directory.join('tmp')), []);
  assert.deepEqual(await listed(after), [{ digest: digestOf('kept'), size: 4 }]);
  assert.ok(after.claim(digestOf('kept')));
  assert.equal(after.removeUnused(digestOf('kept'), Date.now() - 60_000), false, 'just used');
  assert.equal(after.removeUnused(digestOf('kept'), Number.POSITIVE_INFINITY), true);
  assert.equal(after.removeUnused(digestOf('kept'), Number.POSITIVE_INFINITY), true);
  assert.equal(after.claim(digestOf('kept')), false);
  assert.equal(await after.size(digestOf('kept')), undefined);
  await ingest.abort();
});

test('the same content taken in many times at once is one', async () => {
  await using directory = await makeTempDir('content');
  const store = await openContentStore(directory.path);
  const bytes = Buffer.from('the same');
  const digests = await Promise.all(
    Array.from({ length: 10 }, async (_, at) => {
      if (at % 2 === 0) return store.write(digestOf(bytes), bytes).then(() => digestOf(bytes));
      const ingest = await store.ingest();
      await ingest.write(bytes);
      return ingest.commit();
    }),
  );
  assert.deepEqual([...new Set(digests)], [digestOf(bytes)]);
  assert.deepEqual(await store.read(digestOf(bytes)), bytes);
});
