/** Nobody else can use the server's own right to the hosted repositories, or its stored content. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { noTally } from '../../src/foundation/telemetry/tally.ts';
import { createAccountCheck } from '../../src/hosted/accounts/account-check.ts';
import { createHosted } from '../../src/hosted/hosted-repositories.ts';
import { createDocuments } from '../../src/images/documents.ts';
import { createImageMaker } from '../../src/images/image-maker.ts';
import { createPublish } from '../../src/images/publish.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { type Document, documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { createBlobCache } from '../../src/pull/blobs/blob-cache.ts';
import { createBlobRelays } from '../../src/pull/blobs/blob-relays.ts';
import { createBlobFinder } from '../../src/pull/blobs/pulled-blob.ts';
import { createRelayedBlobs } from '../../src/pull/blobs/relayed-blobs.ts';
import { createTransfers } from '../../src/pull/blobs/transfers.ts';
import { createImageFinder } from '../../src/pull/image-finder.ts';
import { createManifestFinder } from '../../src/pull/pulled-image.ts';
import { listingOf } from '../../src/pull/pulled-listing.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import { sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import { createContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createPullStore } from '../../src/storage/rows/figures/usage-rows.ts';
import { createHostedStore, createUploadStore } from '../../src/storage/rows/hosted/hosted-rows.ts';
import { createCachedBlobStore } from '../../src/storage/rows/images/cached-blob-rows.ts';
import { pushingTo } from '../../src/upstream/push-client.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const ownHost = 'sluice.example.com';
const service = (repository: string) => ({
  ...{ registry: ownHost, repository, credentials: undefined, isService: true },
});

async function open() {
  const directory = await makeTempDir('own-right');
  const database = openDatabase(directory.join('sluice.db'));
  const uses = createContentRowStore(database);
  const content = await openContentDirectory(directory.join('content'), { uses });
  const [cachedBlobs, store] = [createCachedBlobStore(database), createHostedStore(database)];
  const limits = {
    maxBlobBytes: undefined,
    maxRepositoryBytes: undefined,
    maxTotalBytes: undefined,
  };
  const accounts = new Map();
  const hosted = createHosted({
    pulls: createPullStore(database),
    ...{ uploads: createUploadStore(database), keptUploads: [], isCurrent: () => true },
    ...{ content, store, cachedBlobs, limits, anonymous: ['*'] },
    contexts: { maxContextBytes: undefined, maxNetworkBytes: undefined, maxBytes: undefined },
    ...{ accounts, accountCheck: createAccountCheck(accounts), hasAccountFiles: false },
    ...{ signingKey: Buffer.alloc(32, 1), host: ownHost, servedPrefix: 'ct/' },
  });
  const { registry, pusher } = hosted;
  /** Returns documents without any in memory. */
  const forgetful = () => {
    const documents = createDocuments(content, registry, 60_000, {
      take: async () => ({ async grow() {}, async keep() {}, [Symbol.dispose]() {} }),
    });
    return { documents, makeImage: createImageMaker(documents) };
  };
  const { documents, makeImage } = forgetful();
  const put = async (repository: string, bytes: Buffer) => {
    const blob = { digest: digestOf(bytes), size: bytes.length };
    const open = async () => sourceOfBytes(bytes);
    await pusher.putBlob(pushingTo(service(repository)), { ...blob, open });
    return blob;
  };
  const putManifest = async (repository: string, tag: string, type: string, body: object) => {
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: type, ...body }));
    const manifest = documentOf(bytes, type);
    await pusher.putManifest(pushingTo(service(repository)), tag, manifest);
    return manifest;
  };
  const image = async (repository: string, tag: string, about: object = {}) => {
    const layer = await put(repository, Buffer.from(`layer of ${repository}:${tag}`));
    const config = await put(
      repository,
      Buffer.from(`{"architecture":"amd64","os":"linux","author":"${repository}:${tag}"}`),
    );
    const manifest = await putManifest(repository, tag, mediaTypes.ociManifest, {
      config: { mediaType: mediaTypes.ociConfig, ...config },
      layers: [{ mediaType: mediaTypes.ociLayerGzip, ...layer }],
      ...about,
    });
    return { layer, config, manifest };
  };
  return {
    ...{ content, cachedBlobs, store, hosted, registry, pusher, documents, makeImage },
    ...{ put, putManifest, image, forgetful },
    async [Symbol.asyncDispose]() {
      database.close();
      await directory.remove();
    },
  };
}

const isUnknown = (error: unknown) => error instanceof Fault && error.status === 404;

test('content that a manifest only names is not taken from the content store when it is published', async () => {
  await using world = await open();
  const secret = await world.image('victim/app', 'v1');
  const { content, documents, registry, pusher, makeImage } = world;
  const publish = createPublish({ content, documents, registry, pusher, ownHost });
  // Parts of a manifest of an unknown type are not looked for when it is pushed.
  const bait = await world.putManifest('thief/app', 'bait', 'application/vnd.example.bait+json', {
    parts: [{ mediaType: 'application/octet-stream', ...secret.layer }],
  });
  const source = { registry: ownHost, repository: 'thief/app', credentials: undefined };
  const made = await makeImage(source, bait, {});
  const target = service('thief/copy');
  const publication = { image: made, added: [], source, target, tag: 'v1' };
  await assert.rejects(
    publish(publication, () => {}, AbortSignal.timeout(60_000)),
    isUnknown,
  );
  await assert.rejects(world.hosted.blobs.size('thief/copy', secret.layer.digest), isUnknown);
});

test('a config of another repository is not shown for a manifest that says it is elsewhere', async () => {
  await using world = await open();
  const secret = await world.image('victim/app', 'v1');
  await world.documents.collect(service('victim/app'), secret.manifest);
  const bait = await world.putManifest('thief/app', 'bait', mediaTypes.ociManifest, {
    config: { mediaType: mediaTypes.ociConfig, ...secret.config, urls: ['https://x.example.com'] },
    layers: [],
  });
  await assert.rejects(world.documents.collect(service('thief/app'), bait), isUnknown);
});

/** Returns what serves an image of a repository by a name of a container request. */
async function served(
  { content, cachedBlobs, registry, documents, makeImage }: Awaited<ReturnType<typeof open>>,
  repository: string,
  { digest, mediaType }: Document,
) {
  const find = createImageFinder({
    ...{ documents, makeImage },
    checkRight: async () => ({
      access: service(repository),
      until: Number.POSITIVE_INFINITY,
    }),
    findBuilt: async () => ({ digest, mediaType }),
  });
  const request = {
    ...{ token: 'a'.repeat(32), isBuilt: true, change: {} },
    targetImage: `${ownHost}/ct/x/${repository}:mine`,
    image: { registry: ownHost, repository, tag: 'mine' },
    caller: { address: '192.0.2.1' },
  } as unknown as ContainerRequest;
  const transfers = createTransfers(content);
  const cache = createBlobCache({ content, cachedBlobs, transfers, maxBytes: 1 });
  const relays = createBlobRelays(transfers, 1);
  const blobs = createBlobFinder({
    ...{ content, registry, cache },
    relayed: createRelayedBlobs({ registry, relays, stallMs: 60_000, trustMs: 0 }),
    modeOf: () => 'relay',
    ...{ ownHost, tally: noTally },
  });
  const manifestOf = createManifestFinder(documents, registry);
  return { request, image: await find(request), manifestOf, blobs };
}

test('an index serves nothing of other repositories, whatever its parts say', async () => {
  await using world = await open();
  const secret = await world.image('victim/app', 'v1');
  const bytes = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      config: { mediaType: mediaTypes.ociConfig, ...secret.config },
      layers: [{ mediaType: mediaTypes.ociLayerGzip, ...secret.layer }],
    }),
  );
  const part = { mediaType: mediaTypes.ociManifest, digest: digestOf(bytes), size: bytes.length };
  const platform = { os: 'linux', architecture: 'amd64' };
  for (const [repository, push] of [
    // The blobs are not parts of an index.
    [
      'thief/pushed-as-index',
      (name: string) =>
        world.pusher.putManifest(
          pushingTo(service(name)),
          'part',
          documentOf(bytes, mediaTypes.ociIndex),
        ),
    ],
    // BuildKit keeps caches as an index of layers, so an index may list blobs.
    ['thief/pushed-as-blob', (name: string) => world.put(name, bytes)],
  ] as const) {
    await push(repository);
    const bait = await world.putManifest(repository, 'bait', mediaTypes.ociIndex, {
      manifests: [{ ...part, platform }],
    });
    // As after a restart: no document is in memory.
    const { image, blobs } = await served({ ...world, ...world.forgetful() }, repository, bait);
    const { signal } = new AbortController();
    for (const { digest } of [secret.layer, secret.config]) {
      await assert.rejects(blobs.head(image, digest, signal), isUnknown, repository);
      await assert.rejects(blobs.open(image, digest, undefined, signal), isUnknown, repository);
    }
  }
});

test('the name of a built image gives no access to other images of its repository', async () => {
  await using world = await open();
  const own = await world.image('builds', 'mine');
  const secret = await world.image('builds', 'theirs');
  const { registry } = world;
  const { digest, mediaType, bytes } = own.manifest;
  const signature = await world.image('builds', 'note', {
    subject: { mediaType, digest, size: bytes.length },
  });
  const { request, image, manifestOf, blobs } = await served(world, 'builds', own.manifest);
  const { signal } = new AbortController();

  const tagOf = (one: Digest) => one.replace(':', '-');
  for (const reference of [secret.manifest.digest, tagOf(secret.manifest.digest), 'theirs']) {
    await assert.rejects(manifestOf(request, image, reference), isUnknown, reference);
  }
  for (const { digest } of [secret.layer, secret.config]) {
    await assert.rejects(blobs.head(image, digest, signal), isUnknown);
    await assert.rejects(blobs.open(image, digest, undefined, signal), isUnknown);
  }
  const list = async (path: string) => {
    const { body } = await listingOf(registry, request, image, path, '');
    return JSON.parse(JSON.stringify(body));
  };
  assert.deepEqual((await list('tags/list')).tags, ['mine']);
  assert.deepEqual((await list(`referrers/${secret.manifest.digest}`)).manifests, []);

  // Its own parts, and what is said about it, are there.
  assert.equal(await blobs.head(image, own.layer.digest, signal), own.layer.size);
  assert.equal((await manifestOf(request, image, digest)).digest, digest);
  const [referrer] = (await list(`referrers/${digest}`)).manifests;
  assert.equal(referrer.digest, signature.manifest.digest);
  assert.ok(await manifestOf(request, image, referrer.digest));
  assert.equal(await blobs.head(image, signature.layer.digest, signal), signature.layer.size);
});
