import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import {
  createLayerListings,
  type LayerListings,
  type ReadableLayer,
} from '../../src/images/listing/layer-listings.ts';
import { keySeparator } from '../../src/images/listing/listed-entry.ts';
import { openListingFiles } from '../../src/images/listing/listing-files.ts';
import type { StoredNode } from '../../src/images/listing/records/tree-file.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import { unlimitedSpace } from '../../src/storage/directory/disk-space.ts';
import { type Entry, tarOf } from '../corpus/layer.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const limits = {
  ...{ maxBytes: 10_000_000, maxUnpackedBytes: 5_000_000, maxEntries: 100, maxNameBytes: 20_000 },
  ...{ maxMs: 60_000, awaitedMs: 60_000 },
};
const storeOptions = { space: unlimitedSpace, maxBytes: 1e9, keepMs: 1e9 };
const log = { error: (details: object) => assert.fail(JSON.stringify(details)) };
let directory: TempDir;
let listings: LayerListings;
let opened = 0;

before(async () => {
  directory = await makeTempDir('listings');
  const files = await openListingFiles({ ...storeOptions, directory: directory.path });
  listings = createLayerListings({ files, log, limits });
});
after(async () => {
  await listings?.close();
  await directory?.remove();
});

function layerOfBytes(bytes: Buffer, content = bytes): ReadableLayer {
  return {
    descriptor: { digest: digestOf(bytes), size: bytes.length },
    ...{ place: 'registry.example', problem: undefined },
    open: async () => {
      opened += 1;
      return sourceOfBytes(content);
    },
  };
}

const layerOf = async (entries: readonly Entry[]) => layerOfBytes(gzipSync(await tarOf(entries)));

async function failureOf(layers: readonly ReadableLayer[], at = 0): Promise<string> {
  let failure: string | undefined;
  await eventually('the layer is refused', async () => {
    await using look = await listings.look({ layers, at, accessKey: 'me', caller: 'me' });
    failure = look.failure;
    return look.progress === undefined;
  });
  return failure ?? 'no failure';
}

/** Returns every path of the last layer with what the layer does to it. */
async function changesOf(
  layers: readonly ReadableLayer[],
  from = listings,
): Promise<Record<string, string>> {
  const changes: Record<string, string> = {};
  await eventually('the layers are compared', async () => {
    await using look = await from.look({
      layers,
      at: layers.length - 1,
      accessKey: 'me',
      caller: 'me',
    });
    assert.equal(look.failure, undefined);
    const { tree } = look;
    if (!tree || look.progress) return false;
    const walk = async (node: StoredNode, path: string): Promise<void> => {
      const gone = node.goneFiles > 0 ? ` -${node.goneFiles}` : '';
      const mark = node.isImplicit ? 'implicit' : node.change;
      if (node.number > 0) changes[path] = `${mark}${gone}`;
      const window = { sort: 'name', offset: 0, limit: 1000 } as const;
      for (const child of await tree.children(node, window)) {
        await walk(child, path === '' ? child.name : `${path}/${child.name}`);
      }
    };
    await walk(tree.root, '');
    return true;
  });
  return changes;
}

test('bombs and hostile tar files end with a sentence', async () => {
  const tar = (content: Buffer | string) => tarOf([{ name: 'a', content }]);
  const zeros = Buffer.alloc(20_000_000);
  const cases: readonly (readonly [ReadableLayer, RegExp])[] = [
    [layerOfBytes(gzipSync(await tar(zeros))), /unpacks to more than 5000000 bytes/],
    [layerOfBytes(gzipSync(zeros)), /unpacks to more than 5000000 bytes/],
    [
      await layerOf(Array.from({ length: 101 }, (_, at) => ({ name: `f${at}`, content: '' }))),
      /has more than 100 files/,
    ],
    [
      await layerOf(
        Array.from({ length: 9 }, (_, at) => ({ name: `${at}${'x'.repeat(3000)}`, content: '' })),
      ),
      /has names of more than 20000 bytes/,
    ],
    [layerOfBytes(Buffer.alloc(10_000_001)), /more than 10000000 bytes/],
    [layerOfBytes(Buffer.from('not a tar file')), /it is not a tar archive|in the middle/],
    [layerOfBytes(Buffer.alloc(0)), /no failure/],
  ];
  for (const [layer, sentence] of cases) assert.match(await failureOf([layer]), sentence);
});

test('content with another digest is never listed', async () => {
  const right = gzipSync(await tarOf([{ name: 'right', content: 'right' }]));
  const wrong = gzipSync(await tarOf([{ name: 'wrong', content: 'wrong' }]));
  const end = Buffer.concat([right, Buffer.alloc(600)]);
  for (const content of [wrong, right.subarray(0, -1), end]) {
    const layer = {
      ...layerOfBytes(right, content),
      place: `at ${content.length} ${content === wrong}`,
    };
    assert.match(await failureOf([layer]), /does not have the size and digest|cut short/);
  }
  // Bytes after the compressed data belong to the digest.
  assert.equal(await failureOf([layerOfBytes(end)]), 'no failure');
});

test('a layer is compared with all layers below it', async () => {
  const below = await layerOf([
    { name: 'a/one', content: '1' },
    { name: 'a/two', content: '2' },
    { name: 'b/', mode: 0o700 },
    { name: 'b/deep/x', content: 'x' },
    { name: 'b/deep/y', content: 'y' },
    { name: 'c', content: 'c' },
    { name: 'd/file', content: 'd' },
    { name: 'e', content: 'e' },
    { name: 'a-b', content: 'between a and a/' },
    { name: 'link', link: 'c' },
    { name: 'opaque/in/old', content: 'o' },
    { name: 'opaque/same', content: 's' },
  ]);
  const middle = await layerOf([
    { name: '.wh.e', content: '' },
    { name: 'c', content: 'C' },
  ]);
  const upper = await layerOf([
    { name: 'a/.wh.one', content: '' },
    { name: 'b/', mode: 0o755 },
    { name: 'b/.wh.deep', content: '' },
    { name: 'b/deep/x', content: 'x' },
    { name: 'c', content: 'c' },
    { name: 'd', content: 'a file in place of a directory' },
    { name: 'e', content: 'e' },
    { name: 'a-b', content: 'between a and a/' },
    { name: 'link', link: 'd' },
    { name: 'opaque/.wh..wh..opq', content: '' },
    { name: 'opaque/same', content: 's' },
    { name: '.wh.never', content: '' },
    { name: '.wh..wh.plnk/ignored', content: '' },
  ]);
  assert.deepEqual(await changesOf([below, middle, upper]), {
    '.wh..wh.plnk': 'implicit',
    '.wh..wh.plnk/ignored': 'added',
    a: 'implicit -1',
    'a/one': 'removed -1',
    'a-b': 'again',
    b: 'attributes -1',
    'b/deep': 'implicit -1',
    'b/deep/x': 'again',
    'b/deep/y': 'removed -1',
    c: 'changed',
    d: 'added -1',
    e: 'added',
    link: 'changed',
    never: 'removed',
    opaque: 'implicit -1',
    'opaque/in': 'implicit -1',
    'opaque/in/old': 'removed -1',
    'opaque/same': 'again',
  });
  await using look = await listings.look({
    layers: [below, middle, upper],
    at: 0,
    accessKey: 'me',
    caller: 'me',
  });
  const wasted = look.waste?.layers.map(layer => layer.wasted);
  assert.deepEqual(wasted, [24, 1, 0]);
  assert.equal(look.waste?.top[0]?.key.replaceAll(keySeparator, '/'), 'a-b');
});

test('a file that a layer has twice is wasted', async () => {
  const layer = await layerOf([
    { name: 'log', content: 'first' },
    { name: 'log', content: 'second one' },
  ]);
  await changesOf([layer]);
  await using look = await listings.look({ layers: [layer], at: 0, accessKey: 'me', caller: 'me' });
  assert.deepEqual(look.waste?.top, [{ key: 'log', bytes: 5, times: 1 }]);
});

test('all who ask share one computation, and it is done once for a place', async () => {
  const layer = await layerOf([{ name: 'shared', content: 'shared' }]);
  opened = 0;
  await Promise.all(Array.from({ length: 20 }, () => changesOf([layer])));
  await changesOf([layer]);
  assert.equal(opened, 1);
  await changesOf([{ ...layer, place: 'other.example' }]);
  assert.equal(opened, 2);
});

test('the least recently used lists are removed', async () => {
  await using own = await makeTempDir('tidy');
  const options = { directory: own.path, space: unlimitedSpace, keepMs: 10_000_000 };
  const files = await openListingFiles({ ...options, maxBytes: 250 });
  for (const [name, age] of [
    ['old', 3000],
    ['new', 1000],
    ['used', 2000],
    ['ancient', 20_000],
  ] as const) {
    await writeFile(join(own.path, name), Buffer.alloc(100));
    const at = Date.now() / 1000 - age;
    await utimes(join(own.path, name), at, at);
  }
  await files.use('used');
  await files.tidy();
  assert.deepEqual((await readdir(own.path)).sort(), ['new', 'used']);
});

test('what is kept of a layer is not shown by an image that names it as foreign', async () => {
  const secret = await layerOf([{ name: 'secret/project', content: 'hidden' }]);
  await changesOf([secret]);
  const foreign = { ...secret, problem: 'It is a foreign layer.' };
  const own = await layerOf([
    { name: 'mine', content: 'm' },
    { name: '.wh..wh..opq', content: '' },
  ]);
  const layers = [foreign, own];
  assert.match(
    await failureOf(layers, 1),
    /Layer 1 of the image is not compared\. It is a foreign/,
  );
  await using look = await listings.look({ layers, at: 1, accessKey: 'me', caller: 'me' });
  assert.deepEqual([look.isCompared, look.waste], [false, undefined]);
  const names =
    (await look.tree?.children(look.tree.root, { sort: 'name', offset: 0, limit: 10 })) ?? [];
  assert.deepEqual(
    names.map(({ name }) => name),
    ['mine'],
  );
  assert.match(await failureOf([foreign], 0), /foreign layer/);
  await using alone = await listings.look({
    layers: [foreign],
    at: 0,
    accessKey: 'me',
    caller: 'me',
  });
  assert.equal(alone.tree, undefined);
});

test('a layer with very deep directories is refused', async () => {
  const deep = await layerOf([{ name: `${'d/'.repeat(128)}file`, content: 'x' }]);
  assert.match(await failureOf([deep]), /more than 128 deep/);
});

test('a list that is removed just before it is read is made again', async () => {
  await using own = await makeTempDir('removed');
  const files = await openListingFiles({ ...storeOptions, directory: own.path });
  let removed = 0;
  const removing = {
    ...files,
    async use(name: string) {
      const path = await files.use(name);
      if (path === undefined || !name.endsWith('.entries') || removed > 0) return path;
      removed += 1;
      await rm(path);
      return path;
    },
  };
  const layer = await layerOf([{ name: 'kept', content: 'k' }]);
  const once = createLayerListings({ files: removing, log, limits });
  assert.deepEqual(await changesOf([layer], once), { kept: 'added' });
  assert.equal(removed, 1);
  await once.close();
});

test('an image whose lists do not fit into the store is refused, and its layers are not read again', async () => {
  await using own = await makeTempDir('small');
  const files = await openListingFiles({
    ...{ ...storeOptions, directory: own.path, maxBytes: 10_000 },
  });
  const layers = await Promise.all(
    [1, 2, 3, 4].map(() =>
      layerOf(
        Array.from({ length: 30 }, () => ({
          ...{ name: randomBytes(50).toString('hex'), content: '' },
        })),
      ),
    ),
  );
  const small = createLayerListings({ files, log, limits });
  opened = 0;
  for (let round = 0; round < 3; round += 1) {
    await eventually('the comparison is refused', async () => {
      await using look = await small.look({ layers, at: 3, accessKey: 'me', caller: 'me' });
      if (look.progress) return false;
      assert.match(look.failure ?? '', /lists of files of the image take more than 5000 bytes/);
      assert.ok(look.tree, 'the layer itself is shown');
      return true;
    });
  }
  assert.ok(opened <= layers.length, `${opened} layers were read`);
  await small.close();
});

test('slow registries do not keep others waiting', async () => {
  await using own = await makeTempDir('slow');
  const files = await openListingFiles({ ...storeOptions, directory: own.path });
  const impatient = createLayerListings({ files, log, limits: { ...limits, awaitedMs: 200 } });
  const look = async (layer: ReadableLayer) => {
    await using found = await impatient.look({
      layers: [layer],
      at: 0,
      accessKey: 'me',
      caller: 'me',
    });
    return { failure: found.failure, progress: found.progress, isRead: found.tree !== undefined };
  };
  const slow = ['one', 'two'].map((name): ReadableLayer => {
    const ended = Promise.withResolvers<null>();
    ended.promise.catch(() => {});
    const read = () => ended.promise;
    const destroy = (reason?: unknown) => ended.reject(reason ?? new Error('destroyed'));
    return { ...layerOfBytes(Buffer.from(name)), open: async () => ({ read, destroy }) };
  });
  for (const layer of slow) await look(layer);
  await eventually('both are read', async () => {
    const looks = await Promise.all(slow.map(look));
    return looks.every(({ progress }) => progress?.isWaiting === false);
  });
  // Nobody waits: they may take their time.
  await sleep(1000);
  for (const layer of slow) assert.equal((await look(layer)).failure, undefined);

  const quick = await layerOf([{ name: 'quick', content: 'q' }]);
  await eventually('the third is read', async () => (await look(quick)).isRead);
  const failures = await Promise.all(slow.map(async layer => (await look(layer)).failure));
  assert.ok(
    failures.some(failure => /registry is slow, and other images wait/.test(failure ?? '')),
  );
  await impatient.close();
});
