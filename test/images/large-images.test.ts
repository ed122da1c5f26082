import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Fault } from '../../src/foundation/fault.ts';
import { collectDocuments, type Documents } from '../../src/images/documents.ts';
import { createImageMaker } from '../../src/images/image-maker.ts';
import type { Descriptor } from '../../src/oci/descriptor.ts';
import type { Digest } from '../../src/oci/digest.ts';
import { type Document, documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';

const MiB = 1024 * 1024;
const access = { registry: 'r.example.com', repository: 'team/app', credentials: undefined };

interface Kept {
  readonly documents: Documents;
  /** Documents that were asked for, each as often as it was. */
  readonly asked: Digest[];
  add(mediaType: string, body: object): Document;
  image(position: number, configBytes?: number, told?: number): Document;
  index(children: readonly Document[]): Document;
}

const descriptorOf = ({ mediaType, digest, bytes }: Document) => ({
  mediaType,
  digest,
  size: bytes.length,
});

/** Documents in memory in place of those of a registry. */
function createKept(): Kept {
  const all = new Map<Digest, Document>();
  const asked: Digest[] = [];
  const get = async (digest: Digest) => {
    asked.push(digest);
    return all.get(digest) ?? assert.fail(`${digest} does not exist`);
  };
  const add = (mediaType: string, body: object) => {
    const document = documentOf(Buffer.from(JSON.stringify(body)), mediaType);
    all.set(document.digest, document);
    return document;
  };
  const config = (_: unknown, { digest }: Pick<Descriptor, 'digest'>) => get(digest);
  const manifest = (_: unknown, digest: Digest) => get(digest);
  const collect: Documents['collect'] = (...args) =>
    collectDocuments({ manifest, config }, ...args);
  const keep = async () => {};
  return {
    documents: { manifest, config, collect, keep, renew: keep } as unknown as Documents,
    asked,
    add,
    image(position, configBytes = 0, told) {
      const content = {
        architecture: 'amd64',
        os: 'linux',
        variant: `v${position}`,
        pad: 'p'.repeat(configBytes),
      };
      const made = descriptorOf(add(mediaTypes.ociConfig, content));
      const size = told ?? made.size;
      const body = { schemaVersion: 2, config: { ...made, size }, layers: [] };
      return add(mediaTypes.ociManifest, body);
    },
    index: children =>
      add(mediaTypes.ociIndex, { schemaVersion: 2, manifests: children.map(descriptorOf) }),
  };
}

const images = (kept: Kept, count: number, ...more: [number?, number?]) =>
  Array.from({ length: count }, (_, position) => kept.image(position, ...more));
const refused = (message: RegExp) => (error: Fault) =>
  error.status === 400 && message.test(error.message);

let collectGarbage: () => void;
before(() => {
  setFlagsFromString('--expose-gc');
  collectGarbage = runInNewContext('gc');
});

test('an index of large configs is refused, whatever size it states', async () => {
  for (const told of [undefined, 100]) {
    const kept = createKept();
    const root = kept.index(images(kept, 60, 2 * MiB, told));
    await assert.rejects(
      kept.documents.collect(access, root),
      refused(/have more than 16777216 bytes together: name one of its images/),
    );
    // Manifest and config of those under way at once, and of those before them.
    assert.ok(kept.asked.length < 64, `${kept.asked.length} documents were fetched`);
  }
});

test('each manifest is visited once, however many indexes name it', async () => {
  const kept = createKept();
  let level: Document[] = images(kept, 20);
  for (const depth of [1, 2, 3]) {
    const entries = level.map(descriptorOf);
    level = Array.from({ length: 20 }, (_, position) =>
      kept.add(mediaTypes.ociIndex, {
        schemaVersion: 2,
        manifests: entries,
        annotations: { place: `${depth} ${position}` },
      }),
    );
  }
  const found = await kept.documents.collect(access, kept.index(level));
  assert.equal(found.size, 1 + 4 * 20 + 20);
  assert.equal(kept.asked.length, 4 * 20 + 20);
});

test('an index of too many manifests is refused before they are fetched', async () => {
  const kept = createKept();
  const root = kept.index(images(kept, 501));
  await assert.rejects(kept.documents.collect(access, root), refused(/more than 500 manifests/));
  assert.equal(kept.asked.length, 0);
});

const large = (name: string) => ({ env: [`A=${name}${'x'.repeat(960 * 1024)}`] });

test('a large environment for many platforms is refused', async () => {
  const kept = createKept();
  const make = createImageMaker(kept.documents);
  const root = kept.index(images(kept, 240));
  await assert.rejects(
    make(access, root, large('')),
    refused(/with the containerConfig has more than 16777216 bytes/),
  );
  assert.equal((await make(access, root, { env: ['A=b'] })).generated.size, 240 * 2 + 1);
});

test('other requests get their turn between the platforms', async () => {
  const kept = createKept();
  const make = createImageMaker(kept.documents);
  const root = kept.index(images(kept, 12));
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 1);
  after(() => clearInterval(timer));
  await make(access, root, large(''));
  clearInterval(timer);
  assert.ok(turns > 1, `${turns} turns`);
});

test('images with a large change do not stay in memory', async () => {
  const kept = createKept();
  const make = createImageMaker(kept.documents);
  const root = kept.image(0);
  /** Buffers are returned by another thread, some time after the collection: the least of some attempts counts. */
  const used = async () => {
    const found: number[] = [];
    for (let attempt = 0; attempt < 10; attempt += 1) {
      collectGarbage();
      await nextTurn();
      const { heapUsed, arrayBuffers } = process.memoryUsage();
      found.push(heapUsed + arrayBuffers);
    }
    return Math.min(...found);
  };
  const atFirst = await used();
  for (let count = 0; count < 80; count += 1) await make(access, root, large(`${count} `));
  const grown = (await used()) - atFirst;
  assert.ok(grown < 40 * MiB, `${grown} bytes more than before`);
});
