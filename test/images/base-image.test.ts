/** Selection of an image for a platform from indexes inside indexes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selectImage } from '../../src/images/bases/base-image.ts';
import type { Digest } from '../../src/oci/digest.ts';
import { type Document, documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { parsePlatform } from '../../src/oci/platform.ts';
import { parseReference } from '../../src/oci/reference.ts';
import { chooseImage, type OpenedImage } from '../../src/request/inspect/inspect.ts';

const name = parseReference('registry.example.com/app:1');
const access = { registry: 'registry.example.com', repository: 'app', credentials: undefined };

/** A registry with documents that a test makes. */
function world() {
  const known = new Map<Digest, Document>();
  const asked: Digest[] = [];
  const add = (body: object, mediaType: string): Document => {
    const text = JSON.stringify({ schemaVersion: 2, mediaType, ...body });
    const document = documentOf(Buffer.from(text), mediaType);
    known.set(document.digest, document);
    return document;
  };
  const descriptor = ({ digest, bytes, mediaType }: Document) => ({
    ...{ mediaType, digest, size: bytes.length },
  });
  const image = (title: string): Document =>
    add(
      {
        config: descriptor(documentOf(Buffer.from(title), mediaTypes.ociConfig)),
        layers: [],
      },
      mediaTypes.ociManifest,
    );
  /** An index of documents, each with its platform, or without one. */
  const index = (...parts: readonly (readonly [part: Document, platform?: string])[]): Document =>
    add(
      {
        manifests: parts.map(([part, platform]) => ({
          ...descriptor(part),
          ...(platform ? { platform: parsePlatform(platform) } : {}),
        })),
      },
      mediaTypes.ociIndex,
    );
  const documents = {
    async manifest(_access: unknown, digest: Digest): Promise<Document> {
      asked.push(digest);
      const document = known.get(digest);
      assert.ok(document, digest);
      return document;
    },
    config: () => Promise.reject(new Error('no config is needed')),
  };
  const select = (root: Document, platform: string) =>
    selectImage(documents, access, name, root, parsePlatform(platform));
  const choose = async (root: Document, platform?: string) => {
    const opened = { name, access, root, documents } as unknown as OpenedImage;
    const chosen = await chooseImage(
      async () => opened,
      'app:1',
      platform,
      async () => undefined,
    );
    return chosen.document;
  };
  return { image, index, select, choose, asked };
}

test('an index inside an index, without a platform of its own', async () => {
  const { image, index, select, choose } = world();
  const [intel, arm] = [image('intel'), image('arm')];
  const inner = index([intel, 'linux/amd64'], [arm, 'linux/arm64']);
  for (const root of [inner, index([inner]), index([index([inner])])]) {
    assert.equal(await select(root, 'linux/amd64'), intel);
    assert.equal(await select(root, 'linux/arm64'), arm);
    assert.equal(await choose(root), intel);
    assert.equal(await choose(root, 'linux/arm64'), arm);
  }
});

test('an index for one platform inside an index', async () => {
  const { image, index, select } = world();
  const arm = image('arm');
  const root = index([index([arm, 'linux/arm64']), 'linux/arm64']);
  assert.equal(await select(root, 'linux/arm64'), arm);
  await assert.rejects(select(root, 'linux/amd64'), /no image for linux\/amd64.*: linux\/arm64$/);
});

test('an image of the platform comes before the indexes beside it', async () => {
  const { image, index, select, asked } = world();
  const [plain, nested] = [image('plain'), image('nested')];
  const root = index([index([nested, 'linux/amd64'])], [plain, 'linux/amd64']);
  assert.equal(await select(root, 'linux/amd64'), plain);
  assert.deepEqual(asked, [plain.digest]);
});

test('the second of two indexes has the platform', async () => {
  const { image, index, select } = world();
  const [intel, arm] = [image('intel'), image('arm')];
  const root = index([index([intel, 'linux/amd64'])], [index([arm, 'linux/arm64'])]);
  assert.equal(await select(root, 'linux/arm64'), arm);
});

test('a platform that no index has', async () => {
  const { image, index, select } = world();
  const root = index([index([image('intel'), 'linux/amd64'])], [image('other')]);
  await assert.rejects(select(root, 'linux/arm64'), /it has: linux\/amd64$/);
});

test('indexes that are too deep or too many are not read', async () => {
  const { image, index, select, asked } = world();
  let deep = index([image('deep'), 'linux/amd64']);
  for (let level = 0; level < 5; level += 1) deep = index([deep]);
  await assert.rejects(select(deep, 'linux/amd64'), /no image for linux\/amd64/);
  assert.ok(asked.length < 5, `${asked.length} documents`);
  asked.length = 0;
  const many = Array.from({ length: 100 }, (_, at) => index([image(`${at}`), 'linux/arm64']));
  await assert.rejects(select(index(...many.map(one => [one] as const)), 'linux/amd64'));
  assert.equal(asked.length, 16);
});
