/** Large, many and simultaneous pushes. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, before, suite, test } from 'node:test';
import { bigImage } from '../corpus/big.ts';
import { bytesOf, type Content } from '../corpus/content.ts';
import { type Image, imageOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { basic } from '../hosted/push-client.ts';
import { storeLogin } from '../world/clients.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { accounts, ci, digestsBelow, keptBlobs } from './hosted.ts';
import { assertSuccess } from './served.ts';

const mebibyte = 1024 * 1024;
const headers = basic(ci.username, ci.password);

suite('pushes under load', () => {
  let sluice: Sluice;
  let root: Root;

  before(async () => {
    sluice = await startSluice({ config: { accounts } });
    root = await openRoot('forky');
    await storeLogin(root, sluice.host, ci);
  });
  after(async () => {
    await root?.close();
    await sluice?.stop();
  });

  const skopeo = (from: string, to: string) =>
    root.exec([
      ...['skopeo', 'copy', '--preserve-digests'],
      ...['--src-tls-verify=false', '--dest-tls-verify=false', from, to],
    ]);
  const nothingIsLeft = async () => {
    assert.deepEqual(await readdir(join(sluice.data, 'content/tmp')), [], 'unfinished content');
  };

  test('64 blobs are uploaded at once', async () => {
    const blobs = Array.from({ length: 64 }, (_, at) => randomBytes(mebibyte + at));
    const uploads = `${sluice.url}/v2/team/many/blobs/uploads/`;
    // All of them are open before the first byte is sent.
    const places = await Promise.all(
      blobs.map(async () => {
        const response = await fetch(uploads, { method: 'POST', headers });
        assert.equal(response.status, 202);
        return new URL(response.headers.get('location') ?? '', sluice.url);
      }),
    );
    await Promise.all(
      blobs.map(async (bytes, at) => {
        const place = places[at] ?? '';
        const half = bytes.length >> 1;
        for (const part of [bytes.subarray(0, half), bytes.subarray(half)]) {
          const reply = await fetch(place, {
            method: 'PATCH',
            headers,
            body: new Uint8Array(part),
          });
          assert.equal(reply.status, 202, await reply.text());
        }
        const end = new URL(place);
        end.searchParams.set('digest', digestOf(bytes));
        const response = await fetch(end, { method: 'PUT', headers });
        assert.equal(response.status, 201, await response.text());
      }),
    );
    for (const bytes of blobs) {
      const digest = digestOf(bytes);
      const response = await fetch(`${sluice.url}/v2/team/many/blobs/${digest}`, { headers });
      assert.equal(digestOf(Buffer.from(await response.arrayBuffer())), digest);
    }
    await nothingIsLeft();
  });

  test('20 clients push images with a shared layer, each to its own repository', async () => {
    const shared = bigImage(4 * mebibyte).blobs.at(-1);
    assert.ok(shared);
    const before = new Set(await keptBlobs(sluice));
    const images = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        const own = await layerOf([{ name: 'number', content: `${at}\n` }]);
        const image = imageOf({ layers: [{ content: shared, diffId: shared.digest }, own] });
        await writeImage(join(root.directory, `tmp/image-${at}`), image);
        return image;
      }),
    );
    const pushes = await Promise.all(
      images.map((_, at) => skopeo(`dir:/tmp/image-${at}`, nameOf(`team/app-${at}`))),
    );
    for (const result of pushes) assertSuccess(result);
    const pulls = await Promise.all(
      images.map((_, at) => skopeo(nameOf(`team/app-${at}`), `dir:/tmp/pulled-${at}`)),
    );
    for (const result of pulls) assertSuccess(result);

    for (const [at, image] of images.entries()) {
      const digests = await digestsBelow(join(root.directory, `tmp/pulled-${at}`));
      for (const { digest } of [image.root, ...image.blobs]) assert.ok(digests.has(digest), digest);
    }
    const added = (await keptBlobs(sluice)).filter(digest => !before.has(digest));
    const expected = new Set(images.flatMap(({ root, blobs }) => [root, ...blobs].map(digestIn)));
    // Each once: the folder of the store has the digests as names.
    assert.deepEqual(new Set(added), expected);
    assert.equal(added.length, 1 + 20 * 3);
    await nothingIsLeft();
  });

  test('a layer of 2 GiB', async context => {
    const size = 2 * 1024 * mebibyte;
    const image = bigImage(size);
    const source = join(root.directory, 'tmp/big');
    await writeImage(source, image);
    const seconds = async (from: string, to: string) => {
      const began = performance.now();
      assertSuccess(await skopeo(from, to));
      return ((performance.now() - began) / 1000).toFixed(1);
    };
    const pushed = await seconds('dir:/tmp/big', nameOf('team/big'));
    await rm(source, { recursive: true });
    const pulled = await seconds(nameOf('team/big'), 'dir:/tmp/big');
    context.diagnostic(`skopeo pushed 2 GiB in ${pushed} s and pulled it in ${pulled} s`);
    for (const { digest, size } of image.blobs) {
      // skopeo has compared the digests.
      assert.equal((await stat(join(source, digest.slice('sha256:'.length)))).size, size);
    }
    await rm(source, { recursive: true });
    await nothingIsLeft();
  });

  const nameOf = (repository: string) => `docker://${sluice.host}/${repository}:1`;
});

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

function digestIn({ digest }: Content): string {
  return digest;
}

/** Writes an image as skopeo's `dir:` has it. */
async function writeImage(folder: string, { root, blobs }: Image): Promise<void> {
  await mkdir(folder);
  await writeFile(join(folder, 'version'), 'Directory Transport Version: 1.1\n');
  await writeFile(join(folder, 'manifest.json'), bytesOf(root));
  for (const blob of blobs) {
    const file = join(folder, blob.digest.slice('sha256:'.length));
    await pipeline(Readable.from(blob.read()), createWriteStream(file));
  }
}
