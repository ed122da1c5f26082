/** Layers are unpacked and compared with their config, once for each registry, within limits. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { Fault } from '../../src/foundation/fault.ts';
import { createLayerProofs, unpackedDigest } from '../../src/images/bases/layer-proofs.ts';
import { createVerifyImage } from '../../src/images/bases/verified-image.ts';
import type { Descriptor } from '../../src/oci/descriptor.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { documentOf, parseManifest } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import type { Platform } from '../../src/oci/platform.ts';
import { sourceOfBytes } from '../../src/storage/content/byte-source.ts';
import type { Access } from '../../src/upstream/access.ts';
import { tarOf } from '../corpus/layer.ts';

const plain = 'application/vnd.oci.image.layer.v1.tar';
const signal = new AbortController().signal;
const digest = (bytes: Buffer) => digestOf(bytes);
const partOf = (bytes: Buffer, mediaType = `${plain}+gzip`): Descriptor => ({
  ...{ mediaType, digest: digest(bytes), size: bytes.length },
});
const read = (bytes: Buffer, part: Partial<Descriptor> = {}) =>
  unpackedDigest(sourceOfBytes(bytes), { ...partOf(bytes), ...part }, 'layer 1', signal);
const tar = await tarOf([{ name: 'file', content: 'some text' }]);

suite('what a layer unpacks to', () => {
  test('of every compression', async () => {
    const large = Buffer.alloc(5_000_000, 'text');
    for (const bytes of [tar, large]) {
      const half = bytes.length >> 1;
      const members = [gzipSync(bytes.subarray(0, half)), gzipSync(bytes.subarray(half))];
      const frames = [bytes.subarray(0, half), bytes.subarray(half)].map(one =>
        zstdCompressSync(one),
      );
      assert.equal(await read(gzipSync(bytes)), digest(bytes));
      assert.equal(await read(Buffer.concat(members)), digest(bytes), 'several members');
      assert.equal(await read(zstdCompressSync(bytes)), digest(bytes));
      assert.equal(await read(Buffer.concat(frames)), digest(bytes), 'several frames');
      assert.equal(await read(bytes), digest(bytes), 'none, whatever its type says');
    }
    assert.equal(await read(Buffer.alloc(0)), digest(Buffer.alloc(0)));
  });

  test('a layer whose type says that it is not compressed is not unpacked', async () => {
    const packed = gzipSync(tar);
    assert.equal(await read(packed, { mediaType: plain }), digest(packed));
    const docker = 'application/vnd.docker.image.rootfs.diff.tar';
    assert.equal(
      await read(packed, { mediaType: docker }),
      digest(tar),
      "builders detect Docker's",
    );
  });

  test('damaged, cut and continued layers are refused', async () => {
    const packed = gzipSync(Buffer.alloc(100_000, 'text'));
    const broken = Buffer.from(packed);
    broken.writeUInt32BE(0xdeadbeef, packed.length - 8);
    const bad = [
      packed.subarray(0, -9),
      broken,
      Buffer.concat([packed, Buffer.from('more')]),
      zstdCompressSync(tar).subarray(0, -5),
      Buffer.concat([zstdCompressSync(tar), Buffer.from('more')]),
    ];
    for (const [index, bytes] of bad.entries()) {
      await assert.rejects(read(bytes), { kind: 'bad-request', message: /^layer 1 / }, `${index}`);
    }
  });

  test('content with another size or digest is refused', async () => {
    const packed = gzipSync(tar);
    for (const part of [
      { digest: digestOf('other') },
      { size: packed.length - 1 },
      { size: packed.length + 1 },
    ]) {
      await assert.rejects(read(packed, part), {
        kind: 'upstream',
        message: /another size or dig/,
      });
    }
  });

  test('a layer that unpacks to far more than its size is refused', async () => {
    const zeros = Buffer.alloc(260 * 1024 * 1024);
    for (const pack of [gzipSync, zstdCompressSync]) {
      await assert.rejects(read(pack(zeros)), { kind: 'too-large', message: /200 times its size/ });
    }
  });

  test('an abort ends the reading', async () => {
    const stop = new AbortController();
    let fail = (_: Error) => {};
    const source = {
      read: () => new Promise<never>((_, reject) => (fail = reject)),
      destroy: (reason = new Error('closed')) => fail(reason),
    };
    const reading = unpackedDigest(source, partOf(tar), 'layer 1', stop.signal);
    stop.abort(new Error('the caller left'));
    await assert.rejects(reading, /the caller left/);
  });
});

const access: Access = {
  registry: 'registry.test',
  repository: 'team/app',
  credentials: undefined,
};

/** A registry with these blobs. */
function world(blobs: readonly Buffer[]) {
  const contents = new Map(blobs.map(bytes => [digest(bytes), bytes]));
  const rows = new Map<string, Digest>();
  const asked: string[] = [];
  const opened: string[] = [];
  const proofs = createLayerProofs({
    registry: {
      async headBlob(of, wanted) {
        asked.push(`${of.registry} ${wanted}`);
        const bytes = contents.get(wanted);
        if (bytes) return bytes.length;
        throw new Fault('blob-unknown', 'it does not exist', { phase: 'upstream' });
      },
    },
    store: {
      find: async (one, registry) => rows.get(`${one} ${registry}`),
      put: async (one, registry, diffId) => void rows.set(`${one} ${registry}`, diffId),
      purge: async () => 0,
    },
    async openLayer({ access: of, layer }) {
      opened.push(of.registry);
      await new Promise(resolve => setImmediate(resolve));
      return sourceOfBytes(contents.get(layer.digest) ?? Buffer.alloc(0));
    },
    lifeMs: 60_000,
  });
  return { proofs, asked, opened, contents };
}

suite('proofs of layers', () => {
  const packed = gzipSync(tar);
  const layer = partOf(packed) as Descriptor & { digest: Digest };
  const proved = { access, layer, name: 'layer 1', isOwn: false };

  test('a layer is read once for all, and once at each registry', async () => {
    const { proofs, opened } = world([packed]);
    const all = await Promise.all(Array.from({ length: 5 }, () => proofs.unpacked(proved, signal)));
    assert.deepEqual(new Set(all), new Set([digest(tar)]));
    assert.equal(await proofs.unpacked(proved, signal), digest(tar));
    const elsewhere = { ...access, registry: 'other.test' };
    await proofs.unpacked({ ...proved, access: elsewhere }, signal);
    assert.deepEqual(opened, ['registry.test', 'other.test']);
  });

  test('one caller that leaves does not end the work of the others', async () => {
    const { proofs } = world([packed]);
    const stop = new AbortController();
    const first = proofs.unpacked(proved, stop.signal);
    const second = proofs.unpacked(proved, signal);
    stop.abort(new Error('the first caller left'));
    await assert.rejects(first, /the first caller left/);
    assert.equal(await second, digest(tar));
  });

  test('an answer is used for a caller with the same right only', async () => {
    const { proofs, asked } = world([packed]);
    await proofs.show(proved, signal);
    await proofs.show(proved, signal);
    assert.equal(asked.length, 1);
    const credentials = { kind: 'password', username: 'u', password: 'p' } as const;
    await proofs.show({ ...proved, access: { ...access, credentials } }, signal);
    await proofs.show({ ...proved, access: { ...access, repository: 'team/other' } }, signal);
    assert.equal(asked.length, 3);
    const missing = { ...layer, digest: digestOf('missing') };
    await assert.rejects(proofs.show({ ...proved, layer: missing }, signal), {
      ...{ kind: 'bad-request', message: /registry\.test does not send layer 1/ },
    });
  });
});

suite('verified images', () => {
  const packed = gzipSync(tar);
  const jsonOf = (value: object) => Buffer.from(JSON.stringify(value));
  const linux = (architecture: string): Platform => ({ os: 'linux', architecture });

  /** Verifies an image, and returns it with the documents that were asked for. */
  const verify = async (
    root: ReturnType<typeof documentOf>,
    documents: readonly Buffer[],
    platforms = [linux('amd64')],
    own: Partial<Parameters<ReturnType<typeof createVerifyImage>>[0]> = {},
  ) => {
    const { proofs, contents, opened } = world([packed, ...documents]);
    const load = async (wanted: Digest, mediaType: string) =>
      documentOf(contents.get(wanted) ?? assert.fail(wanted), mediaType);
    const verified = await createVerifyImage(proofs)(
      {
        ...{ access, root, platforms, owns: () => false, ...own },
        documents: {
          manifest: (_, wanted, mediaType) => load(wanted, mediaType),
          config: (_, config) => load(config.digest, config.mediaType),
        },
      },
      signal,
      () => {},
    );
    return { ...verified, opened };
  };
  const configOf = (more: object = {}) =>
    jsonOf({
      ...{ os: 'linux', architecture: 'amd64' },
      rootfs: { type: 'layers', diff_ids: [digest(tar)] },
      ...more,
    });
  const manifestOf = (config: Buffer, more: object = {}) =>
    documentOf(
      jsonOf({
        ...{ schemaVersion: 2, mediaType: mediaTypes.ociManifest },
        config: partOf(config, mediaTypes.ociConfig),
        layers: [partOf(packed)],
        ...more,
      }),
      mediaTypes.ociManifest,
    );

  test('a layer that this server has made of packages is compared with its config, and not read', async () => {
    const config = configOf();
    const root = manifestOf(config);
    const verifyMade = (owns: boolean, unpacked: Digest) =>
      verify(root, [config], undefined, { owns: () => owns, made: () => unpacked });
    assert.deepEqual((await verifyMade(true, digest(tar))).opened, []);
    await assert.rejects(verifyMade(true, digestOf('other')), /layer 1 /);
    // One of the registry is read, whatever this server has made.
    assert.deepEqual((await verifyMade(false, digestOf('other'))).opened, ['registry.test']);
  });

  test('a manifest stays as it is', async () => {
    const config = configOf();
    const root = manifestOf(config);
    const { root: shown, digests } = await verify(root, [config]);
    assert.equal(shown, root);
    assert.deepEqual([...digests], [root.digest, digest(config), digest(packed)]);
  });

  test('an index has the verified images alone', async () => {
    const configs = ['amd64', 'arm64', 's390x'].map(architecture => configOf({ architecture }));
    const images = configs.map(config => manifestOf(config));
    const entries = images.map((image, at) => ({
      ...partOf(image.bytes, mediaTypes.ociManifest),
      platform: linux(['amd64', 'arm64', 's390x'][at] ?? ''),
    }));
    const bytes = jsonOf({ schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests: entries });
    const root = documentOf(bytes, mediaTypes.ociIndex);
    const documents = [...configs, ...images.map(image => image.bytes)];
    const { root: shown } = await verify(root, documents, [linux('amd64'), linux('arm64')]);
    const index = parseManifest(shown);
    assert.ok(index.kind === 'index');
    assert.deepEqual(
      index.manifests.map(entry => entry.digest),
      images.slice(0, 2).map(image => image.digest),
    );
    await assert.rejects(verify(root, documents, [linux('riscv64')]), {
      message: /no image for linux\/riscv64, only for: linux\/amd64/,
    });
  });

  const reasons: readonly (readonly [string, object, object, RegExp])[] = [
    ['too few diff IDs', { rootfs: { diff_ids: [] } }, {}, /has 1 layers, and its config 0/],
    ['no diff IDs', { rootfs: { diff_ids: ['x'] } }, {}, /lists no valid digests/],
    ['another diff ID', { rootfs: { diff_ids: [digestOf('x')] } }, {}, /layer 1 .* unpacks to/],
    ['an address', {}, { layers: [{ ...partOf(packed), urls: ['https://x'] }] }, /other addresses/],
    [
      'a foreign layer',
      {},
      { layers: [partOf(packed, `${plain.replace('.v1', '.nondistributable.v1')}+gzip`)] },
      /other addresses/,
    ],
    [
      'an encrypted layer',
      {},
      { layers: [partOf(packed, `${plain}+gzip+encrypted`)] },
      /cannot unpack/,
    ],
    ['an artifact', {}, { config: { ...partOf(tar), mediaType: 'application/x' } }, /an artifact/],
    ['two spellings', {}, { Layers: [] }, /ambiguous.*"Layers"/],
    ['folded letters', { 'rootf\u017f': { diff_ids: [] } }, {}, /ambiguous/],
    [
      'two spellings inside',
      { rootfs: { diff_ids: [digest(tar)], Diff_Ids: [] } },
      {},
      /ambiguous/,
    ],
  ];
  for (const [name, config, manifest, message] of reasons) {
    test(`refused: ${name}`, async () => {
      const bytes = configOf(config);
      const root = manifestOf(bytes, manifest);
      await assert.rejects(verify(root, [bytes, tar]), { kind: 'bad-request', message });
    });
  }
});
