import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  documentOf,
  isImage,
  manifestType,
  mayBeRunnable,
  parseManifest,
} from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { OciSyntaxError } from '../../src/oci/syntax-error.ts';
import { jsonObjects } from './arbitraries.ts';

const digest = `sha256:${'0'.repeat(64)}`;
const config = { mediaType: mediaTypes.ociConfig, digest, size: 2 };
const manifest = { schemaVersion: 2, config, layers: [] };
const index = { schemaVersion: 2, manifests: [] };
const document = (body: object, served: string) =>
  documentOf(Buffer.from(JSON.stringify(body)), served);

test('the mediaType of a document counts, then its Content-Type, then its members', () => {
  const { ociManifest, ociIndex, dockerManifest } = mediaTypes;
  assert.equal(
    manifestType(document({ ...manifest, mediaType: ociManifest }, ociIndex)),
    ociManifest,
  );
  assert.equal(manifestType(document(manifest, dockerManifest)), dockerManifest);
  assert.equal(manifestType(document(manifest, 'application/json')), ociManifest);
  assert.equal(manifestType(document(index, 'text/plain')), ociIndex);
  assert.equal(manifestType(document({}, 'text/plain')), 'text/plain');
  assert.equal(parseManifest(document(index, 'text/plain')).kind, 'index');
});

test('schema 1 is recognised by its type and by its version', () => {
  assert.equal(parseManifest(document({}, mediaTypes.dockerSchema1Signed)).kind, 'schema1');
  assert.equal(parseManifest(document({ schemaVersion: 1 }, 'application/json')).kind, 'schema1');
});

test('null stands for an absent value, as Go writes it', () => {
  const parsed = parseManifest(document({ ...manifest, layers: null }, mediaTypes.ociManifest));
  assert.deepEqual(parsed.kind === 'manifest' && parsed.layers, []);
  const empty = parseManifest(document({ ...index, manifests: null }, mediaTypes.ociIndex));
  assert.deepEqual(empty.kind === 'index' && empty.manifests, []);
});

test('the type of the config distinguishes an image from an artifact, else what it contains', () => {
  const rootfs = '{"rootfs":{"type":"layers","diff_ids":[]}}';
  const layer = { mediaType: mediaTypes.dockerLayerGzip, digest, size: 1 };
  for (const [mediaType, text, expected] of [
    [mediaTypes.ociConfig, '{}', true],
    [mediaTypes.dockerConfig, '{}', true],
    [mediaTypes.octetStream, rootfs, true],
    ['text/html', rootfs, true],
    ['application/vnd.example', '{"RootFS":{}}', true],
    [undefined, rootfs, true],
    [mediaTypes.octetStream, '{"rootfs":null}', false],
    [mediaTypes.octetStream, '{"os":"linux"}', false],
    [mediaTypes.octetStream, 'rootfs', false],
    ['application/vnd.sylabs.sif.config.v1', '{}', false],
    [mediaTypes.ociEmpty, '{}', false],
    ['application/vnd.docker.plugin.v1+json', rootfs, false],
  ] as const) {
    const body = { ...manifest, config: { ...config, mediaType }, layers: [layer] };
    const parsed = parseManifest(document(body, mediaTypes.ociManifest));
    const found = parsed.kind === 'manifest' && isImage(parsed, Buffer.from(text));
    assert.equal(found, expected, `${mediaType} ${text}`);
  }
});

test('a config of an unknown type is not read when it is larger than those of images', () => {
  const layers = [{ mediaType: mediaTypes.ociLayerGzip, digest, size: 1 }];
  const large = { digest, mediaType: 'application/vnd.example', size: 64 * 1024 * 1024 };
  for (const [one, expected] of [
    [large, false],
    [{ ...large, size: 1000 }, true],
    [{ ...large, mediaType: mediaTypes.ociConfig }, true],
  ] as const) {
    const body = { ...manifest, config: one, layers };
    const parsed = parseManifest(document(body, mediaTypes.ociManifest));
    assert.equal(parsed.kind === 'manifest' && mayBeRunnable(parsed), expected);
  }
});

for (const [what, body] of [
  ['no config', { schemaVersion: 2, layers: [] }],
  ['a config without digest', { ...manifest, config: { mediaType: 'x', size: 1 } }],
  ['a digest that is none', { ...manifest, config: { ...config, digest: 'sha256:0' } }],
  ['a negative size', { ...manifest, config: { ...config, size: -1 } }],
  ['a version of 3', { ...manifest, schemaVersion: 3 }],
  ['layers that are not a list', { ...manifest, layers: {} }],
] as const) {
  test(`a manifest with ${what} is refused with the position`, () => {
    assert.throws(() => parseManifest(document(body, mediaTypes.ociManifest)), /malformed at '\w+/);
  });
}

test('text that is not a JSON object is refused', () => {
  for (const text of ['', '[]', 'null', '{"a":', '"text"']) {
    assert.throws(
      () => parseManifest(documentOf(Buffer.from(text), mediaTypes.ociManifest)),
      /JSON/,
    );
  }
});

test('any object is read, or refused with a sentence', () => {
  const types = fc.constantFrom(...Object.values(mediaTypes));
  fc.assert(
    fc.property(jsonObjects, jsonObjects, types, (one, other, type) => {
      for (const text of [one, `{"schemaVersion":2,"config":${one},"manifests":[${other}]}`]) {
        const made = documentOf(Buffer.from(text), type);
        try {
          assert.match(parseManifest(made).kind, /^(manifest|index|opaque|schema1)$/);
        } catch (error) {
          assert.ok(error instanceof OciSyntaxError, String(error));
        }
      }
    }),
  );
});
