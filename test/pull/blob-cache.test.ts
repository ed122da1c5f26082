/** One transfer of a blob for all clients, at any time of their arrival. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { createBlobCache } from '../../src/pull/blobs/blob-cache.ts';
import { createTransfers } from '../../src/pull/blobs/transfers.ts';
import { drain, sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createCachedBlobStore } from '../../src/storage/rows/images/cached-blob-rows.ts';
import { makeTempDir } from '../world/temp-dir.ts';

/** A content store that reports a commit some time after the content is in its place. */
function lingering(content: ContentStore) {
  const moved = Promise.withResolvers<void>();
  const told = Promise.withResolvers<void>();
  const ingest: ContentStore['ingest'] = async algorithm => {
    const real = await content.ingest(algorithm);
    const commit = async () => {
      const digest = await real.commit();
      moved.resolve();
      await told.promise;
      return digest;
    };
    return Object.assign(Object.create(real), { commit });
  };
  return { content: { ...content, ingest }, moved: moved.promise, tell: told.resolve };
}

test('a reader that comes while the copy is moved to its place reads it there', async () => {
  await using directory = await makeTempDir('blob-cache');
  const { content, moved, tell } = lingering(await openContentDirectory(directory.join('content')));
  const database = openDatabase(directory.join('sluice.db'));
  const cache = createBlobCache({
    content,
    cachedBlobs: createCachedBlobStore(database),
    transfers: createTransfers(content),
    maxBytes: 1e9,
  });
  const bytes = Buffer.alloc(2_000_000, 'blob');
  const digest = digestOf(bytes);
  const place = { registry: 'registry.example.com', repository: 'app' };
  let transfers = 0;
  const read = async (): Promise<Buffer> => {
    const openWhole = async () => {
      transfers += 1;
      return { size: bytes.length, source: sourceOfBytes(bytes) };
    };
    const reader = await cache.join(place, digest, openWhole, new AbortController().signal);
    const pieces: Buffer[] = [];
    const source = reader.read(0, bytes.length - 1);
    await drain(source, piece => pieces.push(Buffer.from(piece)));
    return Buffer.concat(pieces);
  };

  const first = read();
  await moved;
  const late = read();
  tell();
  for (const got of await Promise.all([first, late])) assert.ok(got.equals(bytes));
  assert.equal(transfers, 1);
});
