/** Which manifests a served image has, and who is asked for them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Documents } from '../../src/images/documents.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import type { Document } from '../../src/oci/manifest.ts';
import {
  createManifestFinder,
  createPulledImage,
  type PulledImage,
} from '../../src/pull/pulled-image.ts';
import { listingOf } from '../../src/pull/pulled-listing.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import type { RegistryClient } from '../../src/upstream/registry-client.ts';
import { document, entry, indexType, manifestType, part } from './made-documents.ts';

const manifest = (name: string, subject?: Document) =>
  document(manifestType, {
    config: part(name),
    layers: [],
    ...(subject ? { subject: entry(subject) } : {}),
  });

const child = manifest('child');
const root = document(indexType, { manifests: [entry(child)] });
const signature = manifest('signature', root);
const stranger = manifest('stranger', manifest('another image'));
const plain = manifest('plain');
const unknown = { kind: 'manifest-unknown' };

/** Finds manifests of the image. `asked` has what was read from its registry or from the store. */
function makeFinder({
  isService = false,
  reader = 'client' as PulledImage['reader'],
  owned = [] as Digest[],
} = {}) {
  const asked: string[] = [];
  const all = [root, child, signature, stranger, plain];
  const read = (where: string, reference: string) => {
    asked.push(`${where} ${reference}`);
    const tagged = reference.startsWith('sha256-') ? signature : undefined;
    return tagged ?? all.find(({ digest }) => digest === reference) ?? assert.fail(reference);
  };
  const find = createManifestFinder(
    {
      local: async (digest: Digest) => read('store', digest),
      manifest: async (_: unknown, digest: Digest) => read('image', digest),
    } as unknown as Documents,
    {
      getManifest: async (_: unknown, reference: string) => read('registry', reference),
    } as unknown as RegistryClient,
  );
  const image = createPulledImage({
    root,
    access: {
      registry: 'r.example.com',
      repository: 'team/app',
      credentials: undefined,
      isService,
    },
    owned: new Set(owned),
    documents: { local: async () => undefined },
    reader,
    onGrow: () => {},
  });
  const request = (token: string) =>
    ({ token, image: { tag: '1' }, targetImage: 'here/wt/x/team/app:1' }) as ContainerRequest;
  return {
    asked,
    image,
    find: (reference: string, token = 'a') => find(request(token), image, reference),
  };
}

test('the root of an image is known by its tag and its digest', async () => {
  const { find, asked } = makeFinder();
  for (const reference of ['1', root.digest]) assert.equal(await find(reference), root);
  assert.deepEqual(asked, []);
});

test('a manifest that the image names is read as part of it, and from the store if it is owned', async () => {
  const named = makeFinder();
  assert.equal(await named.find(child.digest), child);
  assert.deepEqual(named.asked, [`image ${child.digest}`]);
  assert.ok(await named.image.member(digestOf('child')), 'its content belongs to the image');
  const owned = makeFinder({ owned: [child.digest] });
  assert.equal(await owned.find(child.digest), child);
  assert.deepEqual(owned.asked, [`store ${child.digest}`]);
});

test('the registry shows a manifest that the image does not name, to each token once', async () => {
  const { find, asked, image } = makeFinder();
  assert.equal(await find(plain.digest), plain);
  assert.equal(await find(plain.digest), plain);
  assert.equal(await find(stranger.digest), stranger);
  assert.equal(await find(plain.digest, 'b'), plain);
  assert.deepEqual(
    asked,
    [plain, stranger, plain].map(({ digest }) => `registry ${digest}`),
  );
  assert.equal(await image.member(digestOf('plain')), undefined);
});

test('the registry is asked again when it has not shown a manifest for half a minute', async t => {
  let time = 1000;
  t.mock.method(performance, 'now', () => time);
  const { find, asked } = makeFinder();
  for (const [at, times] of [
    [1000, 1],
    [31_000, 1],
    [31_001, 2],
  ] as const) {
    time = at;
    // The cache reads the clock once a millisecond, by a timer that was set earlier.
    await sleep(1);
    assert.equal(await find(plain.digest), plain);
    assert.equal(asked.length, times, String(at));
  }
});

test('where the service asks in its own right, only manifests about the image are shown', async () => {
  const { find, image } = makeFinder({ isService: true });
  for (const other of [plain, stranger]) await assert.rejects(find(other.digest), unknown);
  assert.equal(await image.member(digestOf('stranger')), undefined);
  assert.equal(await find(signature.digest), signature);
  assert.ok(await image.member(digestOf('signature')), 'its content belongs to the image');
});

test('a builder or scanner gets the manifests of its image only', async () => {
  for (const reader of ['builder', 'scanner'] as const) {
    for (const isService of [false, true]) {
      const { find, asked } = makeFinder({ reader, isService });
      for (const other of [plain, signature]) await assert.rejects(find(other.digest), unknown);
      await assert.rejects(find(root.digest.replace(':', '-')), unknown);
      assert.equal(await find(child.digest), child);
      assert.deepEqual(asked, [`image ${child.digest}`]);
    }
  }
});

test('tags of signatures and referrers are served, for images that the caller may see', async () => {
  const ofRoot = root.digest.replace(':', '-');
  const ofOther = plain.digest.replace(':', '-');
  const { find } = makeFinder();
  for (const tag of [ofRoot, `${ofRoot}.sig`, ofOther]) assert.equal(await find(tag), signature);
  for (const tag of ['latest', `x${ofRoot}`, `${ofRoot}.sig.x`, ofRoot.slice(0, -1)]) {
    await assert.rejects(find(tag), { ...unknown, message: /serves app:1 only/ }, tag);
  }
  const service = makeFinder({ isService: true });
  assert.equal(await service.find(`${ofRoot}.att`), signature);
  await assert.rejects(service.find(ofOther), unknown);
});

test('referrers of other images are listed to clients in their own right alone', async () => {
  const subjectOf = (path: string) => path.slice('referrers/'.length);
  for (const [state, expected] of [
    [{}, [plain.digest, child.digest]],
    [{ isService: true }, [child.digest]],
    [{ reader: 'builder' }, [child.digest]],
    [{ reader: 'scanner' }, [child.digest]],
  ] as const) {
    const { image } = makeFinder(state);
    const asked: string[] = [];
    const registry = {
      async getJson(_: unknown, path: string) {
        asked.push(subjectOf(path));
        return { body: Buffer.from('{"schemaVersion":2,"manifests":[]}'), headers: new Map() };
      },
    } as unknown as RegistryClient;
    const request = { image: { registry: 'r.example.com', repository: 'team/app' } };
    for (const { digest } of [plain, child]) {
      const listing = await listingOf(registry, request, image, `referrers/${digest}`, '');
      assert.deepEqual((listing.body as { manifests: unknown }).manifests, []);
    }
    assert.deepEqual(asked, expected);
  }
});
