import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Documents,
  deepestIndex,
  mostBytes,
  mostManifests,
} from '../../src/images/documents.ts';
import { digestOf } from '../../src/oci/digest.ts';
import type { Document } from '../../src/oci/manifest.ts';
import { createImageFinder } from '../../src/pull/image-finder.ts';
import { createPulledImage } from '../../src/pull/pulled-image.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import { document, entry, indexType, manifestType, part } from './made-documents.ts';

/** An index with an index with a manifest, and what finds its image. `read` returns their documents. */
function nestedImage(read: (all: ReadonlyMap<string, Document>) => Documents['local']) {
  const child = document(manifestType, {
    config: part('config'),
    layers: [part('one'), part('two')],
  });
  const nested = document(indexType, { manifests: [entry(child)] });
  const root = document(indexType, { manifests: [entry(nested)] });
  const all = new Map([child, nested, root].map(one => [one.digest, one]));
  return { child, nested, ...imageOf(root, read(all)) };
}

/** What finds an unchanged image, and its request. `local` returns stored documents. */
function imageOf(root: Document, local: Documents['local']) {
  const find = createImageFinder({
    documents: { local } as unknown as Documents,
    makeImage: () => assert.fail('it is here'),
    checkRight: async ({ image: { registry, repository } }) => ({
      access: { registry, repository, credentials: undefined },
      until: Number.POSITIVE_INFINITY,
    }),
    findBuilt: () => assert.fail('it is not built'),
  });
  const request = {
    token: 'a'.repeat(32),
    image: { registry: 'r.example.com', repository: 'team/app', tag: '1' },
    fixed: { base: entry(root), served: { digest: root.digest, mediaType: indexType } },
    change: {},
    caller: { address: '192.0.2.1' },
  } as unknown as ContainerRequest;
  return { find, request };
}

test('simultaneous requests for parts of an image below an index all succeed', async () => {
  const { child, find, request } = nestedImage(all => async digest => {
    // As slow as a disk.
    await new Promise(resolve => setTimeout(resolve, 5));
    return all.get(digest);
  });
  const image = await find(request);
  const asked = ['config', 'one', 'two', 'config'].map(text => image.member(digestOf(text)));
  for (const member of await Promise.all(asked)) assert.ok(member);
  assert.equal((await image.member(child.digest))?.size, child.bytes.length);
  assert.equal(await image.member(digestOf('foreign')), undefined);
  assert.equal(await find(request), image, 'found once');
});

test('a search that a disk interrupts is repeated for the next request', async () => {
  let failures = 1;
  const { child, nested, find, request } = nestedImage(all => async digest => {
    if (digest === child.digest && failures-- > 0) throw new Error('EMFILE');
    return all.get(digest);
  });
  const image = await find(request);
  assert.ok(await image.member(nested.digest), 'what the root names needs no search');
  await assert.rejects(image.member(digestOf('one')), /EMFILE/);
  assert.ok(await image.member(digestOf('one')));
});

test('a search reads a document once, although a thousand entries of each of its indexes name it', async () => {
  const leaf = document(manifestType, { config: part('deep'), layers: [] });
  const repeat = (below: Document) =>
    document(indexType, { manifests: Array.from({ length: 1000 }, () => entry(below)) });
  const c = repeat(leaf);
  const b = repeat(c);
  const a = repeat(b);
  const root = repeat(a);
  const all = new Map([leaf, c, b, a, root].map(one => [one.digest, one]));
  const reads: string[] = [];
  const { find, request } = imageOf(root, async digest => {
    reads.push(digest);
    // Without this limit, the search would not end for hours.
    if (reads.length > 100) throw new Error('too many reads');
    return all.get(digest);
  });
  const image = await find(request);
  const before = reads.length;
  // The client has pulled them before: the search must pass through them, and once.
  for (const one of [a, b, c]) image.learn(one);
  assert.equal(await image.member(digestOf('foreign')), undefined);
  assert.deepEqual(
    reads.slice(before),
    [a, b, c, leaf].map(({ digest }) => digest),
  );
  assert.ok(await image.member(digestOf('deep')));
});

test('a search ends at the limits of a collected image', async () => {
  const leaves = Array.from({ length: mostManifests + 100 }, (_, at) =>
    document(manifestType, { config: part(`wide ${at}`), layers: [] }),
  );
  const chain = [document(manifestType, { config: part('below'), layers: [] })];
  for (let depth = 0; depth <= deepestIndex; depth += 1) {
    chain.unshift(document(indexType, { manifests: chain.slice(0, 1).map(entry) }));
  }
  for (const [root, children] of [
    [document(indexType, { manifests: leaves.map(entry) }), leaves],
    [chain[0], chain.slice(1)],
  ] as const) {
    assert.ok(root);
    const all = new Map([root, ...children].map(one => [one.digest, one]));
    const reads: string[] = [];
    const { find, request } = imageOf(root, async digest => {
      reads.push(digest);
      return all.get(digest);
    });
    const image = await find(request);
    const before = reads.length;
    assert.equal(await image.member(digestOf('foreign')), undefined);
    const expected = children === leaves ? mostManifests + 1 : deepestIndex;
    assert.equal(reads.length - before, expected);
  }
});

test('a search ends where the manifests have more bytes than those of a collected image', async () => {
  const sized = (name: string) => {
    const made = (pad: number) =>
      document(manifestType, {
        config: part(name),
        layers: [],
        annotations: { pad: ' '.repeat(pad) },
      });
    return made(mostBytes / 4 - made(0).bytes.length);
  };
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const leaves = names.map(sized);
  const root = document(indexType, { manifests: leaves.map(entry) });
  const all = new Map([root, ...leaves].map(one => [one.digest, one]));
  const { find, request } = imageOf(root, async digest => all.get(digest));
  const image = await find(request);
  const found = await Promise.all(names.map(name => image.member(digestOf(name))));
  assert.deepEqual(found.map(Boolean), [true, true, true, true, false, false]);
});

test('an image grows with the content that it learns, which counts once', () => {
  let grown = 0;
  const image = createPulledImage({
    root: document(manifestType, { config: part('config'), layers: [] }),
    access: { registry: 'r.example.com', repository: 'team/app', credentials: undefined },
    owned: new Set(),
    documents: { local: async () => undefined },
    onGrow: () => {
      grown += 1;
    },
  });
  const sizeAfter = (...layers: string[]) => {
    const before = image.bytes();
    image.learn(document(manifestType, { config: part('config'), layers: layers.map(part) }));
    return image.bytes() - before;
  };
  const [none, one, two] = [sizeAfter('one'), sizeAfter('two'), sizeAfter('one', 'three', 'four')];
  assert.equal(grown, 3);
  const known = sizeAfter('one', 'two', 'three', 'four');
  assert.ok(known > 0, 'the manifest');
  const ofLayer = one - known;
  assert.ok(ofLayer > 100, `${ofLayer} for a layer`);
  assert.deepEqual([none - known, two - known], [ofLayer, 2 * ofLayer]);
  assert.equal(sizeAfter('one'), 0, 'the same manifest');
  assert.equal(grown, 4);
});

test('a search of indexes in memory yields to the event loop', async () => {
  const leaves = Array.from({ length: mostManifests }, (_, at) =>
    document(manifestType, {
      config: part(`of ${at}`),
      layers: Array.from({ length: 60 }, (_, layer) => part(`${at} ${layer}`)),
    }),
  );
  const root = document(indexType, { manifests: leaves.map(entry) });
  const all = new Map([root, ...leaves].map(one => [one.digest, one]));
  const { find, request } = imageOf(root, async digest => all.get(digest));
  const image = await find(request);
  let turns = 0;
  const watch = setInterval(() => {
    turns += 1;
  }, 1);
  await image.member(digestOf('foreign'));
  clearInterval(watch);
  assert.ok(turns > 0, 'timers ran during the search');
});
