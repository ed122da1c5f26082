import assert from 'node:assert/strict';
import { test } from 'node:test';
import { augment } from '../../src/images/augment/augment.ts';
import type { ImageChange, InjectedLayer } from '../../src/images/augment/image-config.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { type Document, parseManifest } from '../../src/oci/manifest.ts';
import { isIndexType, isManifestType, mediaTypes } from '../../src/oci/media-type.ts';
import { bytesOf } from '../corpus/content.ts';
import { corpusNames, makeImage } from '../corpus/corpus.ts';

const change: ImageChange = {
  env: ['A=1'],
  layers: [
    {
      gzipDigest: `sha256:${'a'.repeat(64)}` as Digest,
      gzipSize: 10,
      tarDigest: `sha256:${'b'.repeat(64)}` as Digest,
    },
  ],
};

async function documentsOf(name: string): Promise<{ root: Document; all: Map<Digest, Document> }> {
  const image = await makeImage(name);
  const gone = new Set((image.gone ?? []).map(({ digest }) => digest));
  const documents = [image.root, ...image.children, ...image.blobs]
    .filter(({ mediaType, digest }) => mediaType.endsWith('json') && !gone.has(digest))
    .map((content): Document => {
      const { mediaType } = content;
      return { bytes: bytesOf(content), mediaType, digest: content.digest as Digest };
    });
  const [root] = documents;
  assert.ok(root);
  return { root, all: new Map(documents.map(document => [document.digest, document])) };
}

for (const name of corpusNames()) {
  test(`every descriptor of ${name} matches its content`, async () => {
    const { root, all } = await documentsOf(name);
    const before = new Map([...all].map(([digest, { bytes }]) => [digest, Buffer.from(bytes)]));
    const image = augment(root, all, change);
    for (const [digest, document] of image.generated) {
      assert.equal(digestOf(document.bytes), digest);
      const manifest = isManifestLike(document) ? parseManifest(document) : undefined;
      const pointed =
        manifest?.kind === 'index'
          ? manifest.manifests
          : manifest?.kind === 'manifest'
            ? [manifest.config]
            : [];
      for (const { digest: child, size } of pointed) {
        const generated = image.generated.get(child);
        if (generated) assert.equal(generated.bytes.length, size);
        else
          assert.ok(
            root.bytes.includes(child) || isNamed(all, child),
            `nothing refers to ${child}`,
          );
      }
    }
    for (const [digest, bytes] of before) assert.ok(all.get(digest)?.bytes.equals(bytes));
    assert.deepEqual(augment(root, all, {}).root, root);
  });
}

test('annotations of lazy formats stay where layers are added, and come with added layers', () => {
  const config = jsonOf({ architecture: 'amd64', os: 'linux', rootfs: { diff_ids: [] } });
  const ofLayers: readonly Readonly<Record<string, string>>[] = [
    { 'containerd.io/snapshot/stargz/toc.digest': `sha256:${'c'.repeat(64)}` },
    { 'io.github.containers.zstd-chunked.manifest-checksum': `sha256:${'d'.repeat(64)}` },
    { 'com.amazon.soci.index-digest': `sha256:${'e'.repeat(64)}` },
  ];
  const added = { 'io.containers.estargz.uncompressed-size': '20480' };
  const layers = [{ ...(change.layers?.[0] as InjectedLayer), annotations: added }];
  for (const [manifestType, indexType, layerType] of [
    [mediaTypes.ociManifest, mediaTypes.ociIndex, mediaTypes.ociLayerGzip],
    [mediaTypes.dockerManifest, mediaTypes.dockerIndex, mediaTypes.dockerLayerGzip],
  ]) {
    const manifest = jsonOf(
      {
        schemaVersion: 2,
        mediaType: manifestType,
        config: {
          mediaType: mediaTypes.ociConfig,
          digest: config.digest,
          size: config.bytes.length,
        },
        layers: ofLayers.map((annotations, at) => ({
          ...{
            mediaType: layerType,
            digest: `sha256:${String(at).repeat(64)}`,
            size: 1,
            annotations,
          },
        })),
        annotations: { 'com.amazon.soci.index-digest': 'of the manifest' },
      },
      manifestType,
    );
    const entry = { mediaType: manifestType, digest: manifest.digest, size: manifest.bytes.length };
    const annotations = { 'com.amazon.soci.index-digest': 'of the entry' };
    const platform = { architecture: 'amd64', os: 'linux' };
    const root = jsonOf(
      { schemaVersion: 2, mediaType: indexType, manifests: [{ ...entry, platform, annotations }] },
      indexType,
    );
    const all = new Map([root, manifest, config].map(one => [one.digest, one]));
    const image = augment(root, all, { env: ['A=1'], layers });
    const index = JSON.parse(image.root.bytes.toString());
    assert.deepEqual(index.manifests[0].annotations, annotations);
    const made = image.generated.get(index.manifests[0].digest) as Document;
    const written = JSON.parse(made.bytes.toString());
    assert.equal(written.annotations['com.amazon.soci.index-digest'], 'of the manifest');
    assert.deepEqual(
      written.layers.map((one: { annotations?: unknown }) => one.annotations),
      [...ofLayers, added],
    );
  }
});

function jsonOf(value: object, mediaType: string = mediaTypes.ociConfig): Document {
  const bytes = Buffer.from(JSON.stringify(value));
  return { bytes, mediaType, digest: digestOf(bytes) };
}

function isManifestLike({ mediaType }: Document): boolean {
  return isManifestType(mediaType) || isIndexType(mediaType);
}

function isNamed(documents: ReadonlyMap<Digest, Document>, digest: string): boolean {
  return [...documents.values()].some(({ bytes }) => bytes.includes(digest));
}
