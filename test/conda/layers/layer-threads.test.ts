/** Threads make layers: with real archives on disk, whatever happens to a thread or to its caller. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { usualEntries } from '../../../src/conda/archives/archive-checks.ts';
import {
  createLayerThreads,
  type LayerOrder,
  type LayerThreads,
} from '../../../src/conda/layers/making/layer-threads.ts';
import { digestOf } from '../../../src/oci/digest.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { madeArchive, rawTar } from '../archives/made-archive.ts';

const never = new AbortController().signal;
const madePackage = {
  ...{ name: 'made', version: '1', build: '0', buildNumber: 0, subdir: 'noarch', depends: [] },
  url: 'https://conda.example.org/c/noarch/made-1-0.conda',
};
const blocks = (count: number, fill: string) => Buffer.alloc(512 * count, fill);
const end = Buffer.alloc(1024);

async function run(
  threads: LayerThreads,
  order: LayerOrder,
): Promise<{ layer: Buffer; tarDigest: string }> {
  const pieces: Uint8Array[] = [];
  const { tarDigest } = await threads.run(
    order,
    async piece => void pieces.push(piece.slice()),
    never,
  );
  return { layer: Buffer.concat(pieces), tarDigest };
}

suite('threads that make layers', () => {
  const withThreads = async (work: (threads: LayerThreads) => Promise<void>) => {
    const threads = createLayerThreads(2);
    try {
      await work(threads);
    } finally {
      await threads.close();
    }
  };

  test('layers put together are the layer of all their files', () =>
    withThreads(async threads => {
      await using directory = await makeTempDir('joined');
      const tars = [blocks(5000, 'a'), blocks(1, 'b'), blocks(3000, 'c')];
      const layers = await Promise.all(
        tars.map(async (tar, at) => {
          const { layer, tarDigest } = await run(threads, { kind: 'tar', tar });
          assert.equal(tarDigest, digestOf(Buffer.concat([tar, end])));
          const path = directory.join(`${at}`);
          await writeFile(path, layer);
          return { path, size: layer.length };
        }),
      );
      const joined = await run(threads, { kind: 'shared', layers });
      const whole = Buffer.concat([...tars, end]);
      assert.ok(gunzipSync(joined.layer).equals(whole));
      assert.equal(joined.tarDigest, digestOf(whole));
    }));

  test('a caller that leaves or fails frees the thread', () =>
    withThreads(async threads => {
      const tar = Buffer.concat(Array.from({ length: 40 }, (_, at) => blocks(2048, `${at}`)));
      const order: LayerOrder = { kind: 'tar', tar };
      for (let round = 0; round < 3; round += 1) {
        const stop = new AbortController();
        const waits = async () => {
          stop.abort(new Error('left'));
          await new Promise(() => {});
        };
        await assert.rejects(threads.run(order, waits, stop.signal), /left/);
        const full = async () => assert.fail('the disk is full');
        await assert.rejects(threads.run(order, full, never), /the disk is full/);
      }
      const { layer } = await run(threads, order);
      assert.ok(gunzipSync(layer).equals(Buffer.concat([tar, end])));
    }));

  test('a layer that is shorter than its row says is an error, not a layer', () =>
    withThreads(async threads => {
      await using directory = await makeTempDir('short');
      const { layer } = await run(threads, { kind: 'tar', tar: blocks(10, 'a') });
      const path = directory.join('layer');
      await writeFile(path, layer.subarray(0, -40));
      const layers = [{ path, size: layer.length }];
      await assert.rejects(run(threads, { kind: 'shared', layers }), /shorter|unexpected end/);
      await writeFile(path, Buffer.concat([layer.subarray(0, 30), Buffer.from('noise')]));
      await assert.rejects(run(threads, { kind: 'shared', layers }));
    }));

  test('the main thread stays free, and takes no more pieces than it can', () =>
    withThreads(async threads => {
      // It is copied for the thread, which holds this one. Orders of the server are a tenth as large.
      const tar = blocks(30_000, 'x').map((byte, at) => (byte * at) >>> 3);
      let waiting = 0;
      let most = 0;
      const { cpuMs } = await longestBlock(async () => {
        await threads.run(
          { kind: 'tar', tar },
          async () => {
            waiting += 1;
            most = Math.max(most, waiting);
            await new Promise(resolve => setTimeout(resolve, 1));
            waiting -= 1;
          },
          never,
        );
      });
      assert.equal(most, 1);
      assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
    }));

  test('a package that needs much memory is made while no other is', () =>
    withThreads(async threads => {
      await using directory = await makeTempDir('large');
      const files = rawTar(
        Array.from({ length: usualEntries + 1 }, (_, at) => ({ name: `${at}` })),
      );
      const shapes = [{}, { files }, {}, { files }, {}];
      let running = 0;
      const made = await Promise.all(
        shapes.map(async (shape, at) => {
          const { bytes, fileName } = await madeArchive(shape);
          const archive = directory.join(`${at}-${fileName}`);
          await writeFile(archive, bytes);
          const limits = { maxUnpackedBytes: 2 ** 30, maxFiles: 100_000 };
          const subject = {
            package: { ...madePackage, fileName },
            place: { prefix: '/opt/conda' },
          };
          const take = async () => {
            running += 1;
            await new Promise(resolve => setTimeout(resolve, 50));
            if ('files' in shape) assert.equal(running, 1);
            running -= 1;
          };
          const order: LayerOrder = { kind: 'package', subject, archive, limits };
          return threads.run(order, take, never);
        }),
      );
      // There are two archives, and their digests are among the facts.
      assert.equal(new Set(made.map(({ about }) => about?.facts)).size, 2);
    }));

  test('closed threads make nothing', async () => {
    const threads = createLayerThreads(1);
    await threads.close();
    await assert.rejects(run(threads, { kind: 'tar', tar: end }), /ended/);
  });
});
