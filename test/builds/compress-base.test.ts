/** Layers of base images in another form: for whom, which of them, and how the image names them then. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { createCompressBase } from '../../src/builds/solve/bases/compress-base.ts';
import { createBaseForms } from '../../src/conda/layers/forms/base-forms.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { createLayerProofs } from '../../src/images/bases/layer-proofs.ts';
import { createVerifyImage } from '../../src/images/bases/verified-image.ts';
import type { MadeOf } from '../../src/images/publish.ts';
import type { Descriptor } from '../../src/oci/descriptor.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { type Document, documentOf, parseManifest } from '../../src/oci/manifest.ts';
import { sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import { createAnonymousShare } from '../../src/storage/rows/images/anonymous-share.ts';
import type { Access } from '../../src/upstream/access.ts';
import { openWhole, type RegistryClient } from '../../src/upstream/index.ts';
import { layersOf } from '../conda/layers/layer-world.ts';
import { bytesOf, type Content } from '../corpus/content.ts';
import { amd64, arm64, type Image, imageOf, indexOf } from '../corpus/image.ts';
import { type Layer, layerOf } from '../corpus/layer.ts';
import { tocAnnotation, verifyEstargz } from '../world/estargz.ts';
import { eventually } from '../world/eventually.ts';

const signal = new AbortController().signal;
const estargz = { mode: 'estargz' } as const;
const team: Access = { registry: 'registry.test', repository: 'team/base', credentials: undefined };
const other: Access = { ...team, repository: 'other/app' };

/** A registry whose repositories have these images, and a server with an empty data directory. */
async function worldOf(t: TestContext, images: Readonly<Record<string, Image>>) {
  const server = await layersOf(t, 'http://127.0.0.1:1');
  const { content } = server;
  const blobs = new Map<string, Buffer>();
  const documents = new Map<Digest, Document>();
  for (const [repository, { root, children, blobs: parts }] of Object.entries(images)) {
    for (const one of [root, ...children, ...parts]) {
      const bytes = bytesOf(one);
      blobs.set(`${repository} ${one.digest}`, bytes);
      if (bytes[0] !== 0x1f) documents.set(one.digest as Digest, documentOf(bytes, one.mediaType));
    }
  }
  const opened: string[] = [];
  /** Registries that send a blob once, and then nothing until the promise is settled. */
  const silent = new Map<string, Promise<unknown>>();
  const blobOf = ({ repository }: Access, digest: string): Buffer => {
    const bytes = blobs.get(`${repository} ${digest}`);
    if (bytes) return bytes;
    throw new Fault('blob-unknown', 'it does not exist', { phase: 'upstream' });
  };
  const registry = {
    headBlob: async (of: Access, digest: Digest) => blobOf(of, digest).length,
    async openBlob(of: Access, digest: Digest) {
      const what = `${of.repository} ${digest}`;
      if (opened.includes(what)) await silent.get(of.registry);
      opened.push(what);
      await new Promise(resolve => setImmediate(resolve));
      const bytes = blobOf(of, digest);
      return {
        kind: 'opened',
        offset: 0,
        total: bytes.length,
        response: { body: sourceOfBytes(bytes) },
      };
    },
  } as unknown as RegistryClient;
  const proofs = createLayerProofs({
    registry,
    store: server.rows.verifiedLayers,
    openLayer: ({ access, layer }, stop) => openWhole(registry, access, layer, stop),
    lifeMs: 60_000,
  });
  const made: string[] = [];
  const limits = {
    ...{ maxRequests: 1, maxFiles: 100, maxBytes: 1_000_000, maxNetworkRequests: 1 },
    ...{ maxNetworkFiles: 100, maxNetworkBytes: 100_000 },
  };
  const compress = createCompressBase({
    ...{ content, registry, ownHost: 'sluice.test' },
    verify: createVerifyImage(proofs),
    documents: {
      manifest: async (_: Access, digest: Digest) => documents.get(digest),
      config: async (_: Access, { digest }: Descriptor) => documents.get(digest),
    } as never,
    reformBaseLayer: createBaseForms({
      maxBytes: 10_000_000,
      share: createAnonymousShare(server.rows.anonymousUse, limits),
      kept: {
        use: server.kept.use,
        make: (...given) => {
          const [, order] = given;
          if (order.kind === 'base') made.push(order.diffId);
          return server.kept.make(...given);
        },
      },
    }),
  });
  return {
    ...{ content, blobs, opened, silent, made, use: server.rows.anonymousUse },
    of(
      access: Access,
      form: Parameters<typeof compress>[1] = estargz,
      more: { readonly signal?: AbortSignal; readonly payer?: string } = {},
    ): Promise<MadeOf> {
      const { root } = images[access.repository] as Image;
      const document = documentOf(bytesOf(root), root.mediaType);
      const base = {
        name: `${access.registry}/${access.repository}:1`,
        source: access,
        root: document,
      };
      return compress(base, form, { signal, payer: undefined, write() {}, ...more });
    },
  };
}

interface Layers {
  readonly layers: readonly Descriptor[];
  readonly diffIds: readonly string[];
  readonly config: Record<string, unknown>;
}

function layersIn({ image: { root, generated } }: MadeOf, document = root): Layers {
  const manifest = parseManifest(document);
  assert.equal(manifest.kind, 'manifest');
  if (manifest.kind !== 'manifest') throw new Error('not an image');
  const config = JSON.parse(generated.get(manifest.config.digest)?.bytes.toString() ?? '{}');
  return { layers: manifest.layers, diffIds: config.rootfs?.diff_ids, config };
}

const one = await layerOf([{ name: 'one', content: 'first' }]);
const two = await layerOf([{ name: 'two', content: 'second' }], 'zstd');
const three = await layerOf([{ name: 'three', content: 'third' }], 'none');
const refused =
  (image: Image, message: RegExp, kind = 'bad-request') =>
  async (t: TestContext) => {
    const world = await worldOf(t, { 'team/base': image });
    await assert.rejects(world.of(team), { kind, message });
    assert.equal(world.made.length, 0);
  };
const changed = (change: (layer: Record<string, unknown>) => object, layer = one) =>
  imageOf({
    layers: [layer],
    manifest: usual => ({
      ...usual,
      layers: (usual.layers as Record<string, unknown>[]).map(change),
    }),
  });

test('all layers of an image get the form, in the types of its family, and its history stays', async t => {
  for (const kind of ['oci', 'docker'] as const) {
    const layers = kind === 'oci' ? [one, two, three, one] : [one, one];
    const image = imageOf({ kind, layers });
    const world = await worldOf(t, { 'team/base': image });
    const made = await world.of(team);
    const now = layersIn(made);
    assert.equal(now.layers.length, layers.length);
    for (const [at, { mediaType, digest, size, annotations }] of now.layers.entries()) {
      const usual =
        kind === 'oci'
          ? 'application/vnd.oci.image.layer.v1.tar+gzip'
          : 'application/vnd.docker.image.rootfs.diff.tar.gzip';
      assert.equal(mediaType, usual);
      const bytes = (await world.content.read(digest)) as Buffer;
      assert.equal(bytes.length, size);
      assert.equal(digestOf(gunzipSync(bytes)), now.diffIds[at]);
      const nodes = await verifyEstargz(bytes, annotations?.[tocAnnotation] ?? '');
      assert.deepEqual(
        nodes.map(({ path }) => path),
        [['one'], ['two'], ['three'], ['one']][kind === 'oci' ? at : 0],
      );
      assert.ok(made.added.includes(digest as Digest));
    }
    const [config] = image.blobs.filter(
      ({ mediaType }) => mediaType.includes('json') || mediaType.includes('config'),
    );
    const before = JSON.parse(bytesOf(config as Content).toString());
    assert.deepEqual(now.config, {
      ...before,
      rootfs: { ...before.rootfs, diff_ids: now.diffIds },
    });
    assert.equal(world.made.length, new Set(layers).size, 'each layer once');
  }
});

test('gzip with a level keeps the diff IDs', async t => {
  const image = imageOf({ layers: [one, two, three] });
  const world = await worldOf(t, { 'team/base': image });
  const { layers, diffIds } = layersIn(await world.of(team, { mode: 'gzip', level: 9 }));
  assert.deepEqual(diffIds, [one.diffId, two.diffId, three.diffId]);
  assert.ok(layers.every(({ annotations }) => annotations === undefined));
});

test('each image of an index has its own layers, and what it shares is made once', async t => {
  const images = [
    imageOf({ layers: [one, two] }),
    imageOf({ layers: [one, three], architecture: 'arm64' }),
  ] as const;
  const index = indexOf([amd64(images[0]), arm64(images[1])]);
  const world = await worldOf(t, { 'team/base': index });
  const made = await world.of(team);
  const root = parseManifest(made.image.root);
  assert.equal(root.kind, 'index');
  if (root.kind !== 'index') return;
  const [first, second] = root.manifests.map(({ digest }) =>
    layersIn(made, made.image.generated.get(digest)),
  );
  assert.deepEqual(first?.layers[0], second?.layers[0]);
  assert.deepEqual(
    root.manifests.map(({ platform }) => platform?.architecture),
    ['amd64', 'arm64'],
  );
  assert.equal(world.made.length, 3);
});

test('layers that have the form stay as they are, and nothing is fetched for an image of them', async t => {
  const annotations = { [tocAnnotation]: `sha256:${'a'.repeat(64)}` };
  const lazy = (layer: Record<string, unknown>) => ({ ...layer, annotations });
  const world = await worldOf(t, { 'team/base': changed(lazy) });
  const made = await world.of(team);
  assert.equal(made.image.generated.size, 0);
  assert.deepEqual(world.opened, []);
  const mixed = imageOf({
    layers: [one, two],
    manifest: usual => {
      const [first, second] = usual.layers as Record<string, unknown>[];
      return { ...usual, layers: [lazy(first ?? {}), second] };
    },
  });
  const partly = layersIn(await (await worldOf(t, { 'team/base': mixed })).of(team));
  assert.equal(partly.layers[0]?.digest, one.content.digest);
  assert.equal(partly.diffIds[0], one.diffId);
  assert.notEqual(partly.layers[1]?.digest, two.content.digest);
});

test('what describes other bytes goes away with them', async t => {
  const image = changed(
    layer => ({
      ...layer,
      data: Buffer.from('x').toString('base64'),
      annotations: {
        'io.github.containers.zstd-chunked.manifest-checksum': 'sha256:0',
        'containerd.io/uncompressed': two.diffId,
        'containerd.io/snapshot/overlaybd/blob-digest': two.content.digest,
        'org.example.note': 'stays',
      },
    }),
    two,
  );
  const world = await worldOf(t, { 'team/base': image });
  const [layer] = layersIn(await world.of(team)).layers;
  const { annotations, ...rest } = layer as Descriptor;
  assert.ok(!('data' in rest));
  assert.equal(annotations?.['org.example.note'], 'stays');
  assert.doesNotMatch(Object.keys(annotations ?? {}).join(' '), /zstd|io\/uncompressed|overlaybd/);
});

test('a layer is read from a registry once, and made once for all who may have it', async t => {
  const image = imageOf({ layers: [one] });
  const world = await worldOf(t, { 'team/base': image, 'other/app': image });
  const all = await Promise.all([world.of(team), world.of(other), world.of(team)]);
  assert.equal(new Set(all.map(made => made.image.root.digest)).size, 1);
  assert.equal(world.made.length, 1);
  const before = world.opened.length;
  await world.of(other);
  assert.equal(world.opened.length, before);
});

test('a caller gets what was made of a layer only if the registry shows that layer in the repository', async t => {
  const secret = imageOf({ layers: [one] });
  // The same manifest in a repository that does not have the layer, as anybody can push it to some registries.
  const world = await worldOf(t, { 'team/base': secret, 'other/app': secret });
  world.blobs.delete(`other/app ${one.content.digest}`);
  await world.of(team);
  await assert.rejects(world.of(other), {
    kind: 'bad-request',
    message:
      /^The layers of the base image registry\.test\/other\/app:1 cannot be compressed again: registry\.test does not send layer 1 /,
  });
  // Another registry says that it has it, and sends other bytes.
  const liar: Access = { ...team, registry: 'liar.test' };
  world.blobs.set(`team/base ${one.content.digest}`, randomBytes(one.content.size));
  await assert.rejects(world.of(liar), { kind: 'upstream', message: /another size or digest/ });
});

test('a caller that leaves does not end the work of another one who waits for the same layer', async t => {
  const image = imageOf({ layers: [one] });
  const world = await worldOf(t, { 'team/base': image, 'other/app': image });
  const stop = new AbortController();
  const leaves = assert.rejects(world.of(team, estargz, { signal: stop.signal }), /left/);
  const waits = world.of(other);
  setImmediate(() => stop.abort(new Error('the caller left')));
  await leaves;
  assert.equal((await waits).added.length, 1);
});

test('callers without a login do not go between the layers of a user', async t => {
  const [four, five] = await Promise.all(['four', 'five'].map(name => layerOf([{ name }])));
  const theirs = imageOf({ layers: [four, five] as never });
  const images = { 'team/base': imageOf({ layers: [one, two, three] }), 'other/app': theirs };
  const world = await worldOf(t, images);
  const ours = world.of(team);
  await eventually('the first one is written', async () => world.made.length > 0);
  await Promise.all([ours, world.of(other, estargz, { payer: '192.0.2.1' })]);
  const groups = [world.made.slice(0, 3), world.made.slice(3)].map(group => group.toSorted());
  const idsOf = (layers: readonly (Layer | undefined)[]) => layers.map(layer => layer?.diffId);
  const expected = [idsOf([one, two, three]), idsOf([four, five])].map(group => group.toSorted());
  assert.deepEqual(groups, expected);
});

test('a registry that sends nothing does not hold up layers of other ones', async t => {
  const images = {
    'team/base': imageOf({ layers: [one, two, three] }),
    'other/app': imageOf({ layers: [await layerOf([{ name: 'four' }])] }),
  };
  const world = await worldOf(t, images);
  const { promise, resolve } = Promise.withResolvers<void>();
  world.silent.set('slow.test', promise);
  const slow = world.of({ ...team, registry: 'slow.test' });
  await eventually('its layers were read', async () => world.opened.length >= 3);
  assert.equal((await world.of(other)).added.length, 1);
  assert.ok(!world.made.includes(one.diffId));
  resolve();
  assert.equal((await slow).added.length, 3);
});

test('layers count towards the share of callers without a login, and users have none', async t => {
  const random = await layerOf([{ name: 'random', content: randomBytes(200_000) }]);
  const images = {
    'team/base': imageOf({ layers: [one] }),
    'other/app': imageOf({ layers: [random] }),
  };
  const world = await worldOf(t, images);
  const payer = '192.0.2.1';
  const { image } = await world.of(team, estargz, { payer });
  const [layer] = layersIn({ image } as MadeOf).layers;
  const used = await world.use.of(payer);
  assert.deepEqual([used.files, used.bytes], [1, layer?.size]);
  await assert.rejects(world.of(other, estargz, { payer }), {
    kind: 'too-many-requests',
    message: /^The layers of the base image .* 192\.0\.2\.1 already has 100000 bytes here/,
  });
  assert.deepEqual(await world.use.of(payer), used);
  assert.equal((await world.of(other)).added.length, 1);
  assert.deepEqual(await world.use.of(payer), used);
});

const elsewhere = 'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip';
test(
  'refused: a layer that is elsewhere',
  refused(
    changed(layer => ({ ...layer, mediaType: elsewhere })),
    /not in the registry but at other addresses.*'buildCompression\.force' false$/,
  ),
);
test(
  'refused: an encrypted layer',
  refused(
    changed(layer => ({ ...layer, mediaType: `${layer.mediaType}+encrypted` })),
    /has the type .*cannot unpack.*'buildCompression\.force' false$/,
  ),
);
test(
  'refused: a config of other layers',
  refused(
    imageOf({
      layers: [one],
      config: usual => ({ ...usual, rootfs: { type: 'layers', diff_ids: [two.diffId] } }),
    }),
    /unpacks to .*, but it is /,
  ),
);
test(
  'refused: a config of more layers',
  refused(
    imageOf({
      layers: [one],
      config: usual => ({
        ...usual,
        rootfs: { type: 'layers', diff_ids: [one.diffId, two.diffId] },
      }),
    }),
    /its manifest has 1 layers, and its config 2/,
  ),
);
test(
  'refused: a size that is not that of the layer',
  refused(
    changed(layer => ({ ...layer, size: 5 })),
    /has \d+ bytes for layer 1/,
  ),
);

test('refused with its name: a layer that the form cannot describe, and one that is too large', async t => {
  const twice = await layerOf([
    { name: 'a', content: '1' },
    { name: 'a', content: '2' },
  ]);
  const world = await worldOf(t, { 'team/base': imageOf({ layers: [one, twice] }) });
  await assert.rejects(world.of(team), {
    kind: 'bad-request',
    message: new RegExp(
      `cannot be compressed again: layer 2 \\(${twice.content.digest}\\) has "a" twice\\. To keep them as they are, send 'buildCompression\\.force' false$`,
    ),
  });
  // Its bytes are no problem of another compression.
  assert.equal((await world.of(team, { mode: 'gzip', level: 1 })).added.length, 2);
  const large = await layerOf([{ name: 'zeros', content: Buffer.alloc(11_000_000) }]);
  const big = await worldOf(t, { 'team/base': imageOf({ layers: [large] }) });
  await assert.rejects(big.of(team), { message: /unpacks to more than 10000000 bytes/ });
});
