import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { digestOf } from '../../src/oci/digest.ts';
import type { SubmittedLayer } from '../../src/request/container-request.ts';
import { createLayerIntake } from '../../src/request/layers/layer-intake.ts';
import { sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { createContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createCachedBlobStore } from '../../src/storage/rows/images/cached-blob-rows.ts';
import { createFetchedLayerStore } from '../../src/storage/rows/images/layer-rows.ts';
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

test('a request whose other layers are too large does not fail the same layer of another user', async () => {
  await using directory = await makeTempDir('content');
  const database = openDatabase(':memory:');
  const content = await openContentDirectory(directory.path, {
    uses: createContentRowStore(database),
  });
  const files = new Map([
    ['/large', gzipSync(Buffer.alloc(90_000))],
    ['/shared', gzipSync(Buffer.alloc(20_000))],
  ]);
  const begun = Promise.withResolvers<void>();
  const both = Promise.withResolvers<void>();
  const intake = createLayerIntake({
    ...{ content, cachedBlobs: createCachedBlobStore(database) },
    fetched: createFetchedLayerStore(database),
    source: {
      async admit() {},
      async open({ pathname }) {
        const bytes = files.get(pathname) ?? Buffer.alloc(0);
        if (pathname === '/shared') {
          begun.resolve();
          await both.promise;
        }
        return { body: sourceOfBytes(bytes), contentLength: bytes.length };
      },
    },
    limits: {
      ...{ maxCount: 2, maxInlineBytes: 100_000, maxUrlBytes: 100_000, maxTarBytes: 100_000 },
      fetchTimeout: 60_000,
    },
    share: {
      take: async () => ({ async grow() {}, async keep() {}, [Symbol.dispose]() {} }),
    },
  });
  const layer = (path: string) => ({ location: `https://example.com${path}` }) as SubmittedLayer;
  const eve = intake.take([layer('/large'), layer('/shared')], { user: 'eve' });
  const refused = assert.rejects(eve, /bytes allowed for all layers/);
  await begun.promise;
  const ada = intake.take([layer('/shared')], { user: 'ada' });
  ada.catch(() => {});
  both.resolve();
  await refused;
  assert.equal((await ada).length, 1);
  await content.close();
  await database.end();
});
