import assert from 'node:assert/strict';
import { test } from 'node:test';
import { augment } from '../../src/images/augment/augment.ts';
import type { ImageChange } from '../../src/images/augment/image-config.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { type Document, parseManifest } from '../../src/oci/manifest.ts';
import { isIndexType, isManifestType } from '../../src/oci/media-type.ts';
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

function isManifestLike({ mediaType }: Document): boolean {
  return isManifestType(mediaType) || isIndexType(mediaType);
}

function isNamed(documents: ReadonlyMap<Digest, Document>, digest: string): boolean {
  return [...documents.values()].some(({ bytes }) => bytes.includes(digest));
}
