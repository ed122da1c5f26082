import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { digestOf } from '../../src/oci/digest.ts';
import { createLayerIntake } from '../../src/request/layers/layers.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createCachedBlobStore } from '../../src/storage/rows/images/cached-blob-rows.ts';
import { createContentRowStore } from '../../src/storage/rows/images/content-rows.ts';
import { createFetchedLayerStore } from '../../src/storage/rows/images/fetched-layer-rows.ts';
import { makeTempDir } from '../world/temp-dir.ts';

test('the cache keeps a copy that a request uses as its layer at the same moment', async () => {
  await using directory = await makeTempDir('content');
  const database = openDatabase(':memory:');
  const content = await openContentDirectory(directory.path, {
    uses: createContentRowStore(database),
  });
  const cachedBlobs = createCachedBlobStore(database);
  const fetched = createFetchedLayerStore(database);
  const intake = createLayerIntake({
    content: {
      ...content,
      async claim(digest) {
        const isHere = await content.claim(digest);
        await content.remove(digest, () => cachedBlobs.drop(digest));
        return isHere;
      },
    },
    cachedBlobs,
    fetched,
    source: {
      async admit() {},
      open: () => Promise.reject(new Error('nothing is fetched')),
    },
    limits: {
      maxCount: 1,
      maxInlineBytes: 100_000,
      maxUrlBytes: 100_000,
      maxTarBytes: 100_000,
      fetchTimeout: 1000,
    },
    share: {
      take: async () => ({ async grow() {}, async keep() {}, [Symbol.dispose]() {} }),
    },
  });
  // An earlier process fetched it. Its request has ended, and the bytes are a copy of an upstream blob now.
  const bytes = gzipSync(Buffer.alloc(1024));
  const digest = digestOf(bytes);
  const layer = {
    location: 'https://example.com/layer.tar.gz',
    gzipDigest: digest,
    gzipSize: bytes.length,
    tarDigest: digestOf(Buffer.alloc(1024)),
  };
  const { location, ...measured } = layer;
  await fetched.put(location, JSON.stringify(measured), Date.now());
  await content.write(digest, bytes);
  const copy = { digest, size: bytes.length, places: [], at: 1 };
  await cachedBlobs.enter({ ...copy, wasHere: false });
  await intake.take([layer], {});
  assert.equal(await content.size(digest), bytes.length);
  await content.close();
  await database.end();
});
