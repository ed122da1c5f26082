import assert from 'node:assert/strict';
import { test } from 'node:test';
import { augment } from '../../src/images/augment/augment.ts';
import type { ImageChange } from '../../src/images/augment/image-config.ts';
import { digestOf } from '../../src/oci/digest.ts';
import type { Document } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { OciSyntaxError } from '../../src/oci/syntax-error.ts';
import { processorMs } from '../world/processor-time.ts';
import { type Base, baseOf, describe, written } from './arbitraries.ts';

const { ociConfig, ociIndex, ociManifest, ociLayerGzip } = mediaTypes;
const { dockerIndex, dockerManifest, dockerLayerGzip } = mediaTypes;
const layer = { gzipDigest: digestOf('gzip'), gzipSize: 4, tarDigest: digestOf('tar') };
const everything: ImageChange = { env: ['A=1'], entrypoint: ['/e'], layers: [layer] };

const config = written('{"architecture":"amd64","os":"linux","config":{}}', ociConfig);
const ownLayer = (mediaType: string) =>
  `{"mediaType":"${mediaType}","digest":"${digestOf('own')}","size":3}`;

function imageText(layers: readonly string[], more = '', configMore = ''): string {
  return `{"schemaVersion":2,"config":${describe(config, configMore)},"layers":[${layers}]${more}}`;
}

const image = written(imageText([ownLayer(ociLayerGzip)]), ociManifest);

function indexText(entries: readonly string[], more = ''): string {
  return `{"schemaVersion":2,"manifests":[${entries}]${more}}`;
}

const made = ({ root, documents }: Base, change = everything) => augment(root, documents, change);

/** The generated document as an object. */
function body(document: Document | undefined) {
  return JSON.parse(String(document?.bytes)) as Record<string, never> & {
    manifests: Record<string, unknown>[];
    layers: Record<string, unknown>[];
    config: Record<string, unknown>;
  };
}

for (const [what, root] of [
  ['an attestation that is the root', imageText([ownLayer('application/vnd.in-toto+json')])],
  [
    'a signature with the config of an image',
    imageText([ownLayer('application/vnd.dev.cosign.simplesigning.v1+json')]),
  ],
  [
    'an artifact of an older shape',
    '{"mediaType":"application/vnd.oci.artifact.manifest.v1+json"}',
  ],
  ['an index of no entries', indexText([])],
  ['an index whose entries are null', '{"schemaVersion":2,"manifests":null}'],
] as const) {
  test(`untouched: ${what}`, () => {
    for (const type of [ociManifest, ociIndex]) {
      if (root.includes('"manifests"') !== (type === ociIndex)) continue;
      const base = baseOf(written(root, type), config);
      const result = made(base);
      assert.equal(result.root, base.root);
      assert.equal(result.generated.size, 0);
      assert.equal(result.maxLayers, 0);
    }
  });
}

test('untouched: attestations in an index that does not mark them', () => {
  const attestation = written(imageText([ownLayer('application/vnd.in-toto+json')]), ociManifest);
  const root = written(indexText([describe(image), describe(attestation)]), ociIndex);
  const after = body(made(baseOf(root, image, attestation, config)).root);
  assert.notEqual(after.manifests[0]?.digest, image.digest);
  assert.equal(after.manifests[1]?.digest, attestation.digest);
});

test('attestations stay about the image of the base, which the changed image names', () => {
  const attestation = written(imageText([ownLayer('application/vnd.in-toto+json')]), ociManifest);
  const about = (digest: string) => ({
    ...JSON.parse(describe(attestation)),
    annotations: {
      'vnd.docker.reference.digest': digest,
      'vnd.docker.reference.type': 'attestation-manifest',
    },
  });
  const elsewhere = `sha256:${'0'.repeat(64)}`;
  const entries = [
    JSON.stringify(about(image.digest)),
    describe(image),
    JSON.stringify(about(elsewhere)),
  ];
  const root = written(indexText(entries), ociIndex);
  const { manifests } = body(made(baseOf(root, image, attestation, config)).root);
  assert.deepEqual([manifests[0], manifests[2]], [about(image.digest), about(elsewhere)]);
  assert.notEqual(manifests[1]?.digest, image.digest);
});

test('images: layers of every type that runtimes unpack, and no layers', () => {
  for (const type of [
    'application/vnd.oci.image.layer.v1.tar',
    'application/vnd.oci.image.layer.v1.tar+zstd',
    'application/vnd.oci.image.layer.v1.tar+gzip+encrypted',
    'application/vnd.oci.image.layer.nondistributable.v1.tar+gzip',
    'application/vnd.oci.image.layer.nydus.blob.v1',
    'application/vnd.docker.image.rootfs.diff.tar',
    'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip',
    'application/vnd.docker.container.image.rootfs.diff+x-gtar',
  ]) {
    for (const layers of [[ownLayer(type)], [ownLayer('text/plain'), ownLayer(type)]]) {
      const after = body(made(baseOf(written(imageText(layers), ociManifest), config)).root);
      assert.equal(after.layers.length, layers.length + 1, type);
    }
  }
  assert.equal(made(baseOf(written(imageText([]), ociManifest), config)).maxLayers, 1);
  const none = written(imageText([]).replace('[]', 'null'), ociManifest);
  assert.equal(made(baseOf(none, config)).maxLayers, 1);
});

test('descriptors: embedded content is renewed, download URLs are removed', () => {
  const inside = `,"data":"${config.bytes.toString('base64')}","urls":["https://example.org/c"],"annotations":{"a":"b"}`;
  const child = written(imageText([], ',"annotations":{"c":"d"}', inside), ociManifest);
  const more = `,"data":"${child.bytes.toString('base64')}","urls":null,"platform":{"os":"linux","architecture":"amd64","os.features":["x"]},"artifactType":"t"`;
  const root = written(indexText([describe(child, more)], ',"subject":null'), ociIndex);
  const result = made(baseOf(root, child, config));
  const [entry] = body(result.root).manifests;
  const manifest = [...result.generated.values()].find(({ digest }) => digest === entry?.digest);
  assert.deepEqual(entry, {
    mediaType: ociManifest,
    digest: manifest?.digest,
    size: manifest?.bytes.length,
    data: manifest?.bytes.toString('base64'),
    platform: { os: 'linux', architecture: 'amd64', 'os.features': ['x'] },
    artifactType: 't',
  });
  const { digest, size, data, ...rest } = body(manifest).config;
  assert.deepEqual(rest, { mediaType: ociConfig, annotations: { a: 'b' } });
  const written_ = Buffer.from(String(data), 'base64');
  assert.equal(digest, digestOf(written_));
  assert.equal(size, written_.length);
});

test('manifests: the subject does not change', () => {
  const subject = `,"subject":${ownLayer(ociManifest)}`;
  const root = written(imageText([], subject), ociManifest);
  assert.ok(String(made(baseOf(root, config)).root.bytes).includes(subject));
});

test('indexes: a repeated child is repeated after the change', () => {
  const root = written(indexText([describe(image), describe(image, ',"x":1')]), ociIndex);
  const result = made(baseOf(root, image, config));
  const [one, other] = body(result.root).manifests;
  assert.equal(one?.digest, other?.digest);
  assert.notEqual(one?.digest, image.digest);
  assert.equal(result.generated.size, 3);
});

test('indexes: an image is read by the type in its index entry', () => {
  const child = written(imageText([]), 'application/json');
  const entry = describe({ ...child, mediaType: dockerManifest });
  const result = made(baseOf(written(indexText([entry]), dockerIndex), child, config));
  assert.equal(result.root.mediaType, dockerIndex);
  const manifest = [...result.generated.values()].find(one => one.mediaType === dockerManifest);
  assert.equal(body(manifest).layers[0]?.mediaType, dockerLayerGzip);
});

test('indexes: the largest number of layers counts, at any position', () => {
  const small = written(imageText([]), ociManifest);
  const root = written(indexText([describe(image), describe(small)]), ociIndex);
  assert.equal(made(baseOf(root, image, small, config)).maxLayers, 2);
});

test('indexes: an index of very many images costs no more than its size', () => {
  let below: Document = image;
  const all: Document[] = [image, config];
  for (let depth = 0; depth < 30; depth++) {
    below = written(indexText(Array(10).fill(describe(below)), `,"depth":${depth}`), ociIndex);
    all.push(below);
  }
  const base = baseOf(below, ...all);
  const ms = processorMs(() => assert.equal(made(base).generated.size, 32));
  assert.ok(ms < 2000, `${ms} ms`);
});

test('an image that cannot be changed is refused with a sentence', () => {
  const signed = written('no JSON', mediaTypes.dockerSchema1Signed);
  assert.throws(() => made(baseOf(signed)), /retired Docker schema 1 format/);
  const broken = { ...config, bytes: Buffer.from('no JSON') };
  const root = written(imageText([]), ociManifest);
  assert.throws(() => made(baseOf(root, broken)), OciSyntaxError);
  const child = { ...image, bytes: Buffer.from('{}') };
  const index = written(indexText([describe(image)]), ociIndex);
  assert.throws(() => made(baseOf(index, child, config)), OciSyntaxError);
});

test('layers are not added to images for Windows, which get other changes', () => {
  const windows = `,"platform":{"os":"windows","architecture":"amd64"}`;
  const other = written(imageText([ownLayer(ociLayerGzip)], ',"annotations":{}'), ociManifest);
  const root = written(indexText([describe(image), describe(other, windows)]), ociIndex);
  const base = baseOf(root, image, other, config);
  const [linux, kept] = body(made(base).root).manifests;
  assert.notEqual(linux?.digest, image.digest);
  assert.equal(kept?.digest, other.digest);
  const [, changed] = body(made(base, { env: ['A=1'] }).root).manifests;
  assert.notEqual(changed?.digest, other.digest);
});
