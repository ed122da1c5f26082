/** Buffers of bodies whose bytes cannot be written: the pool gets all of them back. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { anonymousDomain } from '../../src/builds/domain.ts';
import { createDatedLayers } from '../../src/builds/solve/dating/dated-layers.ts';
import { createRedateImage, type RedateDeps } from '../../src/builds/solve/dating/redate-image.ts';
import { buildTime } from '../../src/builds/solve/dating/redate-layer.ts';
import { fetchLayer } from '../../src/images/sif/layers/gather.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { createLayerIntake, type LayerDeps } from '../../src/request/layers/layer-intake.ts';
import { type ByteSource, copiesOf, drain } from '../../src/storage/content/byte-source.ts';
import { SlabPool } from '../../src/storage/content/file-source.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const chunkBytes = 512 * 1024;
const chunks = 3;
const size = chunks * chunkBytes;
const digest = digestOf(Buffer.alloc(size));
const noSpace = () => Promise.reject(new Error('no space is left'));

/** A body in large buffers of the pool. */
function bodyIn(pool: SlabPool): ByteSource {
  let left = chunks;
  return {
    async read() {
      if (left === 0) return null;
      left -= 1;
      const slab = pool.take(true);
      let isLent = true;
      const release = () => {
        if (isLent) pool.give(slab);
        isLent = false;
      };
      return { bytes: slab.bytes, release };
    },
    destroy() {
      left = 0;
    },
  };
}

/** Takes in a layer at a URL. */
function takeLayer(pool: SlabPool, write: () => Promise<void>, maxUrlBytes = size) {
  const deps = {
    content: {
      ingest: async () => ({ size: 0, write, abort: async () => {} }),
    },
    fetched: { find: async () => undefined },
    source: {
      async admit() {},
      open: async () => ({ body: bodyIn(pool), contentLength: undefined }),
    },
    limits: {
      ...{ maxCount: 1, maxInlineBytes: size, maxUrlBytes },
      ...{ maxTarBytes: size, fetchTimeout: 60_000 },
    },
    share: {
      take: async () => ({ async grow() {}, async keep() {}, [Symbol.dispose]() {} }),
    },
  };
  const intake = createLayerIntake(deps as unknown as LayerDeps);
  return intake.take([{ location: 'https://example.com/layer.tar.gz' }], {});
}

test('a layer of a request that cannot be written', async () => {
  const pool = new SlabPool();
  await assert.rejects(takeLayer(pool, noSpace));
  assert.equal(pool.lent, 0);
});

test('a layer of a request that is too large', async () => {
  const pool = new SlabPool();
  await assert.rejects(
    takeLayer(pool, async () => {}, chunkBytes - 1),
    /is larger than/,
  );
  assert.equal(pool.lent, 0);
});

test('a layer of a request that cannot be unpacked, while it is still being written', async () => {
  const pool = new SlabPool();
  const begun = Promise.withResolvers<void>();
  const written = Promise.withResolvers<void>();
  const taking = takeLayer(pool, () => {
    begun.resolve();
    return written.promise;
  });
  taking.catch(() => {});
  await begun.promise;
  const isOver = await Promise.race([
    taking.catch(() => true),
    unpackedWrongly().then(() => false),
  ]);
  assert.equal(isOver, false, 'the write may still read the buffer');
  assert.equal(pool.lent, 1);
  written.resolve();
  await assert.rejects(taking, /is not a gzip file/);
  assert.equal(pool.lent, 0);
});

/** Waits for the failure of a layer of the same bytes, which the write does not hold up. */
async function unpackedWrongly(): Promise<void> {
  await assert.rejects(
    takeLayer(new SlabPool(), async () => {}),
    /is not a gzip file/,
  );
}

test('a layer of a Singularity image without space for it', async () => {
  await using directory = await makeTempDir('released');
  const pool = new SlabPool();
  const layer = { digest, size, mediaType: mediaTypes.ociLayerGzip };
  const file = { name: 'layer 1 of 1', path: directory.join('layer'), size, isScratch: true };
  const space = {
    write() {
      throw new Error('no space is left');
    },
  };
  const { signal } = new AbortController();
  await assert.rejects(fetchLayer(layer, bodyIn(pool), file, space, signal), /no space is left/);
  assert.equal(pool.lent, 0);
});

test('a layer of a build that cannot be written for its dates', async () => {
  const pool = new SlabPool();
  const created = new Date(buildTime * 1000).toISOString();
  const text = JSON.stringify({ history: [{ created }], rootfs: { diff_ids: [digest] } });
  const config = documentOf(Buffer.from(text), mediaTypes.ociConfig);
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: { mediaType: config.mediaType, digest: config.digest, size: config.bytes.length },
    layers: [{ mediaType: mediaTypes.ociLayerGzip, digest, size }],
  };
  const root = documentOf(Buffer.from(JSON.stringify(manifest)), mediaTypes.ociManifest);
  const deps = {
    content: {
      scratch: async () => ({ path: 'file', write: noSpace, async [Symbol.asyncDispose]() {} }),
    },
    registry: {
      openBlob: async () => ({
        ...{ kind: 'bytes', response: { body: bodyIn(pool) }, offset: 0, total: size },
      }),
    },
    ownHost: 'sluice.example.com',
  };
  const redate = createRedateImage(deps as unknown as RedateDeps);
  const source = { registry: 'registry.example.com', repository: 'app', credentials: undefined };
  const { signal } = new AbortController();
  const sent = new Map([root, config].map(({ digest, bytes }) => [digest, bytes]));
  const blob = (wanted: Digest) => {
    const bytes = sent.get(wanted);
    return bytes && { size: bytes.length, open: () => Readable.from([bytes]) };
  };
  const { digest: ofRoot, mediaType } = root;
  const known = createDatedLayers({ claim: async () => false }).of(anonymousDomain, undefined);
  const image = {
    digest: ofRoot,
    mediaType,
    received: { blob },
    elsewhere: new Map(),
    source,
    known,
  };
  await assert.rejects(
    redate(image, { bases: [] }, () => {}, signal),
    /no space is left/,
  );
  assert.equal(pool.lent, 0);
});

test('a build context whose reader stops', async () => {
  const pool = new SlabPool();
  for await (const piece of copiesOf(bodyIn(pool))) {
    assert.equal(piece.length, chunkBytes);
    assert.equal(pool.lent, 0, 'while the reader works with a piece');
    break;
  }
  assert.equal(pool.lent, 0);
});

test('a body whose reader fails', async () => {
  const pool = new SlabPool();
  const fail = () => {
    throw new Error('wrong bytes');
  };
  await assert.rejects(drain(bodyIn(pool), fail), /wrong bytes/);
  assert.equal(pool.lent, 0);
});
