/** Images as builders send them. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { suite, test } from 'node:test';
import {
  type ReceivedImage,
  receivedDocuments,
  receiveImage,
} from '../../src/builds/solve/received-image.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { type Document, documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { makeTempDir } from '../world/temp-dir.ts';

async function startWorld() {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await makeTempDir('received'));
  const content = await openContentDirectory(directory.join('content'));
  stack.defer(() => content.close());
  const image = stack.use(receiveImage(content, digest => digest === digestOf('here')));
  const whole = stack.move();
  return {
    image,
    files: () => readdir(directory.join('content/tmp')),
    [Symbol.asyncDispose]: () => whole.disposeAsync(),
  };
}

async function send(image: ReceivedImage, bytes: Buffer, digest: string = digestOf(bytes)) {
  const writer = await image.open(digest, bytes.length);
  for (let at = 0; at < bytes.length; at += 100_000) {
    await writer.write(bytes.subarray(at, at + 100_000));
  }
  await writer.commit();
  return digestOf(bytes);
}

function described({ digest, mediaType, bytes }: Document) {
  return { digest, mediaType, size: bytes.length };
}

const small = Buffer.from('a small layer');
const large = Buffer.alloc(3_000_000, 'a large layer ');

suite('a received image', () => {
  test('blobs can be read several times, and their readers may change the bytes', async () => {
    await using world = await startWorld();
    const { image } = world;
    assert.equal(await image.has(digestOf('here')), true);
    for (const bytes of [small, large]) {
      assert.equal(await image.has(digestOf(bytes)), false);
      const digest = await send(image, bytes);
      assert.equal(await image.has(digest), true);
      const blob = image.blob(digest);
      assert.equal(blob?.size, bytes.length);
      for (let round = 0; blob && round < 2; round += 1) {
        const read = await buffer(blob.open());
        assert.ok(read.equals(bytes));
        read.fill(0);
      }
    }
    assert.equal(image.blob(digestOf('another')), undefined);
  });

  test('many small blobs do not stay in memory', async () => {
    await using world = await startWorld();
    for (let count = 0; count < 20; count += 1) {
      await send(world.image, Buffer.alloc(60_000, `${count} `));
    }
    assert.equal((await world.files()).length, 20 - Math.floor((1024 * 1024) / 60_000));
  });

  test('a blob with other bytes than those of its digest is refused, and may come again', async () => {
    await using world = await startWorld();
    for (const bytes of [small, large]) {
      const digest = digestOf(bytes);
      const wrong = Buffer.from(bytes);
      wrong[5] = 0;
      await assert.rejects(
        send(world.image, wrong, digest),
        /has other bytes than those of sha256/,
      );
      assert.equal(world.image.blob(digest), undefined);
      await send(world.image, bytes);
      assert.ok(world.image.blob(digest));
    }
    await assert.rejects(send(world.image, small, 'none'), /without a SHA-256 digest/);
  });

  test('its files are removed with it', async () => {
    const world = await startWorld();
    await send(world.image, large);
    const unfinished = await world.image.open(digestOf('unfinished'), 5_000_000);
    await unfinished.write(large);
    assert.equal((await world.files()).length, 2);
    await unfinished.abort();
    await world.image[Symbol.asyncDispose]();
    assert.deepEqual(await world.files(), []);
    await assert.rejects(world.image.open(digestOf('late'), 5_000_000));
    assert.deepEqual(await world.files(), []);
    await world[Symbol.asyncDispose]();
  });

  test('its documents are those that its root names', async () => {
    await using world = await startWorld();
    const { ociConfig, ociManifest, ociIndex, ociLayerGzip } = mediaTypes;
    const config = documentOf(Buffer.from('{"rootfs":{}}'), ociConfig);
    const layers = [{ mediaType: ociLayerGzip, digest: digestOf(small), size: small.length }];
    const ofManifest = {
      schemaVersion: 2,
      mediaType: ociManifest,
      config: described(config),
      layers,
    };
    const manifest = documentOf(Buffer.from(JSON.stringify(ofManifest)), ociManifest);
    const ofIndex = { schemaVersion: 2, mediaType: ociIndex, manifests: [described(manifest)] };
    const index = documentOf(Buffer.from(JSON.stringify(ofIndex)), ociIndex);
    for (const { bytes } of [manifest, index]) await send(world.image, bytes);
    await assert.rejects(receivedDocuments(world.image, index), /has no readable sha256:/);
    await send(world.image, config.bytes);
    const found = await receivedDocuments(world.image, index);
    assert.deepEqual([...found.values()], [index, manifest, config]);
  });
});
